"""`Device`: steps 2 and 3 on a real device. An offer in; report bytes, or a refusal, out. The only door.

    1 understand the offer, refuse what this device does not accept      2 play it in the device's own world
    3 charge the ledger, randomise, store: one transaction               4 return the stored bytes

**Guarantee.** Whatever offers come, in whatever order, from whomever, and whenever the process is killed: all that ever leaves
through this door is ε-LDP for the device's private data, with the ε of its ledger. A refusal depends on the offer, on this
device's settings and on what was charged before, never on a gradient or a score.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgc.budget import epsilon_of, nano_of
from pgc.device.ledger import Balance, Ledger, LedgerError, OtherOffer, words
from pgc.errors import BudgetSpent, PgcError
from pgc.mechanisms.clip import HUGE, clip_elements
from pgc.mechanisms.score_bit import ScoreBit
from pgc.release.release import as_vector, release, release_score
from pgc.wire import Malformed, Offer, Report
from pgc.wire.query import KINDS

log = logging.getLogger("pgc.device")
EXACT = tuple(kind.name for kind in KINDS.values())
"""The mechanisms that may leave a device."""


@dataclass(frozen=True)
class Refusal:
    """Nothing leaves, nothing was charged."""

    reason: str


class Player(Protocol):
    """Step 2: what a device makes of an offer in its own world (`pgc.device.play` has one)."""

    def play(self, offer: Offer) -> tuple[np.ndarray, bool]:
        """The numbers to randomise, as many as the query has (`offer.query.dim`), and whether the score reached Θ."""


class Device:
    """One private agent. It enforces its own limits, whatever an offer says and whoever signed it."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        player: Player | None = None,
        accepts: Collection[str] = EXACT,
        most_epsilon: float | None = None,
        most_episodes: int = 1000,
        slot_seconds: float | None = None,
    ) -> None:
        """A device with this ledger.

        `accepts`: mechanisms that it is willing to use. `most_epsilon`: the most that one report may cost; by default all that is
        left. `slot_seconds`: every answer takes a whole number of these, so that time says nothing; choose it longer than any
        play.
        """
        unknown = set(accepts) - set(EXACT)
        if unknown:
            raise PgcError(f"a device can accept {', '.join(EXACT)}; not {', '.join(sorted(unknown))}")
        if slot_seconds is not None and not slot_seconds > 0:
            raise PgcError(f"slot_seconds must be greater than 0, not {slot_seconds:g}")
        self._ledger, self._player, self._accepts = ledger, player, frozenset(accepts)
        self._most = None if most_epsilon is None else nano_of(most_epsilon)
        self._most_episodes, self._slot = most_episodes, slot_seconds

    @classmethod
    def create(cls, path: str | os.PathLike[str], epsilon: float, **settings: Any) -> Device:
        """A device with a new ledger, whose limit is ε for life."""
        return cls(Ledger.create(path, epsilon), **settings)

    @classmethod
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Device:
        """A device with the ledger it has."""
        return cls(Ledger.open(path), **settings)

    @property
    def balance(self) -> Balance:
        """Limit, spent and left, in nano-ε."""
        return self._ledger.balance

    def release(self, offer: Offer | bytes, gradient: Any, *, success: bool | None = None) -> bytes | Refusal:
        """Step 3 for a gradient that was made elsewhere: any array-like with as many numbers as θ.

        `success`, whether the score reached Θ, is needed where the offer asks for the noisy boolean. Asked again with the same
        offer it returns the same bytes, whatever the gradient is now.
        """

        def numbers(understood: Offer) -> tuple[np.ndarray, bool | None]:
            vector = as_vector(gradient).ravel()
            if vector.size != understood.theta.size:
                raise PgcError(f"the gradient has {vector.size} numbers; θ of the offer has {understood.theta.size}")
            if understood.basis is not None:
                vector = understood.basis.T @ clip_elements(vector, HUGE)
            return vector, success

        return self._in_slot(lambda: self._answer(offer, numbers, scored=success is not None))

    def answer(self, offer: Offer | bytes) -> bytes | Refusal:
        """Steps 2 and 3: play the offer's policy in this device's world, and report."""
        player = self._player
        if player is None:
            raise PgcError("this device has no world to play in; give Device a player, or use release")

        def numbers(understood: Offer) -> tuple[np.ndarray, bool]:
            try:
                return player.play(understood)
            except PgcError:  # offer and recipe do not go together: nothing private
                raise
            except Exception:  # a silence would tell that this world went wrong: report no direction, at the same price
                log.exception("playing offer %016x failed; a report without a direction answers it", understood.offer_id)
                return np.full(understood.query.dim, np.nan), False

        return self._in_slot(lambda: self._answer(offer, numbers, scored=True))

    def _answer(self, offer: Offer | bytes, numbers: Callable[[Offer], Any], scored: bool) -> bytes | Refusal:
        try:
            offer = offer if isinstance(offer, Offer) else Offer.decode(offer)
            digest = offer.digest
            before = self._ledger.stored(offer.offer_id, digest)
            if before is not None:
                return before
            self._refuse(offer, scored)
            vector, success = numbers(offer)
            understood = offer
            return self._ledger.pay(offer.offer_id, digest, offer.query.cost, lambda: _draw(understood, vector, success))
        except (Malformed, OtherOffer, BudgetSpent, LedgerError) as error:
            return Refusal(str(error))

    def _refuse(self, offer: Offer, scored: bool) -> None:
        """Before anything is played or drawn. `pay` looks at the balance again, under its lock."""
        query, left = offer.query, self.balance.left
        if query.name not in self._accepts:
            raise Malformed(f"this device does not accept {query.name}")
        if self._most is not None and query.cost > self._most:
            raise BudgetSpent(f"a report for {words(query.cost)}; this device gives at most {words(self._most)} at once")
        if query.cost > left:
            raise BudgetSpent(f"this costs {words(query.cost)} and {words(left)} of {words(self.balance.most)} is left")
        if offer.expires_at and time.time() >= offer.expires_at:
            raise Malformed("the offer has expired")
        if offer.episodes > self._most_episodes:
            raise Malformed(f"{offer.episodes} local episodes; this device plays at most {self._most_episodes}")
        if query.score_nano_epsilon and not scored:
            raise Malformed("the offer asks for the noisy boolean, and no score was given")

    def _in_slot(self, answer: Callable[[], bytes | Refusal]) -> bytes | Refusal:
        begun = time.monotonic()
        try:
            return answer()
        finally:
            if self._slot is not None:
                time.sleep(self._slot - (time.monotonic() - begun) % self._slot)


def _draw(offer: Offer, vector: np.ndarray, success: bool | None) -> bytes:
    """Step 3: the bytes of one report."""
    query = offer.query
    code = release(query.mechanism, vector, offer.public_seed)
    bit = None
    if query.score_nano_epsilon:
        bit = release_score(ScoreBit(epsilon=epsilon_of(query.score_nano_epsilon)), bool(success))
    report = Report(offer_id=offer.offer_id, policy_version=offer.policy_version, code=code, score_bit=bit)
    return report.encode(offer)
