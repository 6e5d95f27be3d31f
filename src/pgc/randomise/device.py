"""`Device`: steps 2 and 3 on a real device. An offer in; report bytes, or a refusal, out. The only
door.

    1 understand the offer, refuse what this device does not accept
    2 play it in the device's own world
    3 randomise; charge and store, in one transaction
    4 return the stored bytes

**Guarantee.** Whatever offers come, in whatever order, from whomever, and whenever the process is
killed: all that ever leaves through this door is ε-LDP for the device's private data, with the ε of
its ledger. A refusal depends on the offer, on this device's settings and on what was charged
before, never on a gradient or a score.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgc.errors import BudgetSpent, PgcError, in_one_line
from pgc.randomise.budget import epsilon_of, nano_of
from pgc.randomise.ledger import Balance, Ledger, LedgerError, OtherOffer, words
from pgc.randomise.mechanisms.clip import HUGE, clip_elements
from pgc.randomise.mechanisms.forms import FIRST_OUTSIDE
from pgc.randomise.mechanisms.registry import ON_THE_WIRE
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.release import as_vector, release, release_score
from pgc.wire import Malformed, Offer, Report
from pgc.wire.report import size_of

log = logging.getLogger("pgc.device")
EXACT = tuple(kind.name for number, kind in ON_THE_WIRE.items() if number < FIRST_OUTSIDE)
"""The mechanisms of pgc that may leave a device. One from outside may as well, if the application
names it in `accepts`."""


@dataclass(frozen=True)
class Refusal:
    """Nothing leaves, nothing was charged."""

    reason: str


class _Refused(Exception):
    """By this module alone, for reasons that are public: nobody else's exception can become the
    words of a refusal.
    """


class Player(Protocol):
    """Step 2: what a device makes of an offer in its own world (`pgc.local_training.numpy_player`
    has one).
    """

    def fits(self, offer: Offer) -> bool:
        """Whether this is a policy for its world. From what is public."""

    def play(self, offer: Offer) -> tuple[np.ndarray, bool]:
        """The numbers to randomise, as many as the query has (`offer.query.dim`), and whether the
        score reached Θ.
        """


class Device:
    """One private agent on a real device.

    It enforces its own limits, whatever an offer says and whoever signed it.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        player: Player | None = None,
        accepts: Collection[str] = EXACT,
        most_epsilon: float | None = None,
        most_episodes: int = 1000,
        most_bytes: int = 2**18,
        slot_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A device with this ledger.

        `accepts`: mechanisms that it is willing to use. `most_epsilon`: the most that one report
        may cost; by default all that is left. `most_bytes`: of one report. `slot_seconds`: every
        answer takes a whole number of these, so that time says nothing; choose it longer than any
        play. `clock`: by which an offer has expired; a late report is of no use, and no risk, so
        this may be the aggregator's.
        """
        known = [kind.name for kind in ON_THE_WIRE.values()]
        unknown = set(accepts) - set(known)
        if unknown:
            raise PgcError(
                f"a device can accept {', '.join(known)}; not {', '.join(sorted(unknown))}"
            )
        if slot_seconds is not None and not 0 < slot_seconds <= 86_400:
            raise PgcError(
                f"slot_seconds must be greater than 0, and at most a day, not {slot_seconds:g}"
            )
        self._ledger, self._player, self._accepts = ledger, player, frozenset(accepts)
        self._most = None if most_epsilon is None else nano_of(most_epsilon)
        self._most_episodes, self._most_bytes, self._slot = most_episodes, most_bytes, slot_seconds
        self._clock = clock

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

    def release(
        self, offer: Offer | bytes, gradient: Any, *, success: bool | None = None
    ) -> bytes | Refusal:
        """Step 3 for a gradient that was made elsewhere: any array-like with as many numbers as θ.

        `success`, whether the score reached Θ, is needed where the offer asks for the noisy
        boolean. Asked again with the same offer it returns the same bytes, whatever the gradient is
        now. What is no gradient at all (None, a wrong length, text) gets a report without a
        direction, at the same price, and a line in the log: a refusal would tell that training
        failed.
        """

        def numbers(understood: Offer) -> tuple[np.ndarray, bool | None]:
            vector = as_vector(gradient).ravel()
            if vector.size != understood.theta.size:
                raise ValueError(
                    f"the gradient has {vector.size} numbers; θ of the offer has "
                    f"{understood.theta.size}"
                )
            return vector if understood.basis is None else understood.basis.T @ clip_elements(
                vector, HUGE
            ), success

        return self._in_slot(lambda: self._answer(offer, numbers, scored=success is not None))

    def answer(self, offer: Offer | bytes) -> bytes | Refusal:
        """Steps 2 and 3: play the offer's policy in this device's world, and report."""
        player = self._player
        if player is None:
            raise PgcError(
                "this device has no world to play in; give Device a player, or use release"
            )

        def numbers(understood: Offer) -> tuple[np.ndarray, bool]:
            if not player.fits(understood):
                raise _Refused("the offer's policy is not one that this device can play")
            return player.play(understood)

        return self._in_slot(lambda: self._answer(offer, numbers, scored=True))

    def _answer(
        self, offer: Offer | bytes, numbers: Callable[[Offer], Any], scored: bool
    ) -> bytes | Refusal:
        try:
            understood = offer if isinstance(offer, Offer) else Offer.decode(offer)
            digest = understood.digest
            before = self._ledger.stored(understood.offer_id, digest)
            if before is not None:
                return before
            self._refuse(understood, scored)
            vector, success = _protected(numbers, understood)
            begun = time.perf_counter()
            report = _drawn(understood, vector, success)
            if seconds := understood.query.mechanism.release_seconds:
                _wait(begun, seconds)
            return self._ledger.pay(understood.offer_id, digest, understood.query.cost, report)
        except (_Refused, Malformed, OtherOffer, BudgetSpent, LedgerError) as error:
            return Refusal(str(error))

    def _refuse(self, offer: Offer, scored: bool) -> None:
        """Before anything is played or drawn. `pay` looks at the balance again, under its lock."""
        query, left = offer.query, self.balance.left
        if query.name not in self._accepts:
            raise _Refused(f"this device does not accept {query.name}")
        if self._most is not None and query.cost > self._most:
            raise _Refused(
                f"a report for {words(query.cost)}; this device gives at most {words(self._most)} "
                "at once"
            )
        if query.cost > left:
            raise _Refused(
                f"this costs {words(query.cost)} and {words(left)} of {words(self.balance.most)} "
                "is left"
            )
        if offer.expires_at and self._clock() >= offer.expires_at:
            raise _Refused("the offer has expired")
        if offer.episodes > self._most_episodes:
            raise _Refused(
                f"{offer.episodes} local episodes; this device plays at most {self._most_episodes}"
            )
        if size_of(offer) > self._most_bytes:
            raise _Refused(
                f"a report of {size_of(offer)} bytes; this device gives at most {self._most_bytes}"
            )
        if query.score_nano_epsilon and not scored:
            raise _Refused("the offer asks for the noisy boolean, and no score was given")
        if query.kind >= FIRST_OUTSIDE:
            try:
                draw_report(offer, np.zeros(query.dim), False)  # and forget it
            except Exception as error:
                raise _Refused(f"{query.name} cannot randomise: {in_one_line(error)}") from None

    def _in_slot(self, answer: Callable[[], bytes | Refusal]) -> bytes | Refusal:
        begun = time.perf_counter()
        try:
            return answer()
        finally:
            if self._slot is not None:
                _wait(begun, self._slot)


def _protected(numbers: Callable[[Offer], Any], offer: Offer) -> tuple[np.ndarray, bool]:
    """What is to be randomised. Whatever goes wrong with it becomes a report without a direction,
    at the same price.

    A silence would tell that this world, or this gradient, went wrong.
    """
    try:
        with np.errstate(all="ignore"):
            vector, success = numbers(offer)
            return as_vector(vector).reshape(offer.query.dim), bool(success)
    except (_Refused, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        log.exception(
            "what offer %016x asks for could not be made; a report without a direction answers it",
            offer.offer_id,
        )
        return np.full(offer.query.dim, np.nan), False


def _drawn(offer: Offer, vector: np.ndarray, success: bool | None) -> bytes:
    """The bytes of one report, whatever the gradient is.

    The mechanisms of pgc never raise. One from outside that does, for some gradients, would tell of
    them by its silence: zeros stand in, with which it was tried before anything was played.
    """
    with np.errstate(all="ignore"):  # whatever the application set: no gradient may raise
        try:
            return draw_report(offer, vector, success)
        except Exception:
            log.exception(
                "%s cannot randomise a gradient; a report of zeros answers", offer.query.name
            )
            return draw_report(offer, np.zeros(offer.query.dim), success)


def draw_report(offer: Offer, vector: np.ndarray, success: bool | None) -> bytes:
    """Step 3: the bytes of one report."""
    query = offer.query
    code = release(query.mechanism, vector, offer.public_seed)
    bit = None
    if query.score_nano_epsilon:
        bit = release_score(ScoreBit(epsilon=epsilon_of(query.score_nano_epsilon)), bool(success))
    return Report(
        offer_id=offer.offer_id, policy_version=offer.policy_version, code=code, score_bit=bit
    ).encode(offer)


def _wait(begun: float, slot: float) -> None:
    """Until a whole number of slots has passed."""
    time.sleep(slot - (time.perf_counter() - begun) % slot)
