"""`Device` takes steps 2 and 3 on a real device: it turns an offer into a report, or refuses it.

It is the only way by which anything leaves a device. For each offer, it

    - decodes the offer, and refuses one that this device does not accept
    - charges the ledger, and stores a blank report, which is sent if anything below fails
    - plays the offer in the device's own world, until a deadline
    - randomises the result, and stores this report in place of the blank one
    - returns the stored bytes at the end of a slot

**Guarantee.** Everything that a device ever returns is ε-LDP for its private data, with the ε of
its ledger, whoever sends offers, in whatever order, and whenever the process is killed. A refusal
depends on the offer, the device's settings and earlier charges, never on a gradient or a score.
Every outcome of play is charged and answered: also an exception, a kill for lack of memory, or a
play that never ends (docs/guarantees.md).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgc.device.ledger import Balance, Ledger, LedgerError, OtherOffer
from pgc.device.slots import DEFAULT_SLOT, Late, Slot, wait
from pgc.errors import BudgetSpent, PgcError, in_one_line
from pgc.randomise.budget import epsilon_text, nano_of, not_enough
from pgc.randomise.mechanisms.clip import HUGE, clip_elements
from pgc.randomise.mechanisms.forms import FIRST_OUTSIDE
from pgc.randomise.mechanisms.registry import ON_THE_WIRE
from pgc.randomise.release import as_vector
from pgc.randomise.report import draw_report
from pgc.wire import Malformed, Offer
from pgc.wire.report import size_of

log = logging.getLogger("pgc.device")
RELEASABLE = tuple(kind.name for number, kind in ON_THE_WIRE.items() if number < FIRST_OUTSIDE)
"""The mechanisms of pgc that may leave a device. One from outside may as well, if the application
names it in `accepts`."""
Play = Callable[[Offer, Callable[[], bool]], Any]
"""Plays an offer: returns the numbers to randomise, and whether the score reached Θ. It is given a
function that says whether to stop."""


@dataclass(frozen=True)
class Refusal:
    """Returned instead of a report when a device refuses an offer.

    Nothing was played, and nothing leaves the device. The reason never depends on private data.
    """

    reason: str


class _Refused(Exception):
    """Raised by this module alone, for reasons that are public, and turned into a `Refusal`.

    So the text of an exception that a world or a player raises never becomes a refusal's reason.
    """


class Player(Protocol):
    """Step 2: what a device makes of an offer in its own world (`pgc.local_training.numpy_player`
    has one).
    """

    def objection(self, offer: Offer) -> str | None:
        """Says why this offer cannot be played here, from what is public; None if it can."""

    def play(self, offer: Offer, stop: Callable[[], bool]) -> tuple[np.ndarray, bool]:
        """Returns the numbers to randomise, as many as the query has (`offer.query.dim`), and
        whether the score reached Θ.

        Gives up, by any exception, soon after `stop` says yes: nobody waits for the result.
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
        accepts: Collection[str] = RELEASABLE,
        most_epsilon: float | None = None,
        most_episodes: int = 1000,
        most_bytes: int = 2**12,
        slot_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Makes a device that charges this ledger.

        `player` plays offers in the device's own world; without one, only `reserve` and `release`
        can be used. `accepts` names the mechanisms that the device is willing to use.
        `most_epsilon` is the largest ε that one report may cost; by default whatever is left.
        `most_episodes` is the largest number of local episodes that an offer may ask for.
        `most_bytes` is the largest size of a report; the ledger keeps every report for ever.

        `slot_seconds` is the fixed time from an offer to its answer, so that the time of an answer
        reveals nothing; `pgc slot` measures how long it must be. Training between `reserve` and
        `release` that takes longer than a slot can still be seen. By default a device with a
        player has slots of 30 s, and a device without one has none, because it does not know when
        training began. With 0 there are no slots: the time of a report then reveals something about
        the device's world, and the ledger records that the report left without a slot.

        `clock` decides whether an offer has expired. It may be the aggregator's clock: a late
        report is useless to the aggregator, but no risk to the device.
        """
        known = [kind.name for kind in ON_THE_WIRE.values()]
        unknown = set(accepts) - set(known)
        if unknown:
            raise PgcError(
                f"a device can accept {', '.join(known)}; not {', '.join(sorted(unknown))}"
            )
        self._ledger, self._player, self._accepts = ledger, player, frozenset(accepts)
        self._most = None if most_epsilon is None else nano_of(most_epsilon)
        self._most_episodes, self._most_bytes, self._clock = most_episodes, most_bytes, clock
        default = 0.0 if player is None else DEFAULT_SLOT
        self._slot = Slot(default if slot_seconds is None else slot_seconds)
        self._reserved: dict[int, tuple[bytes, float]] = {}

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: float,
        *,
        device_id: str | None = None,
        **settings: Any,
    ) -> Device:
        """Makes a device with a new ledger. Call it once, when the device is installed.

        `epsilon` is the limit on everything that the device will ever send. `device_id` is a name
        that no other device has, such as a serial number; with it, a second ledger for the same
        device is refused, even if the first one was lost. `settings` are those of `Device`.
        """
        return cls(Ledger.create(path, epsilon, device_id=device_id), **settings)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, device_id: str | None = None, **settings: Any
    ) -> Device:
        """Returns a device with the ledger it has."""
        return cls(Ledger.open(path, device_id=device_id), **settings)

    @property
    def balance(self) -> Balance:
        """Limit, spent and left, in nano-ε."""
        return self._ledger.balance

    def answer(self, offer: Offer | bytes) -> bytes | Refusal:
        """Plays the offer's policy in this device's world, and returns the randomised report.

        These are steps 2 and 3. The same offer always gets the same bytes, and is charged once.
        Returns a `Refusal`, and plays nothing, if the device does not accept the offer or its
        ledger cannot be used. Raises `Unanswered` if the ledger fails after play.
        """
        player = self._player
        if player is None:
            raise PgcError(
                "this device has no world to play in; give Device a player, or use release"
            )
        begun = self._slot.begin()
        try:
            understood = _understood(offer)
            before = self._charge(understood, player.objection)
            return before or self._report(understood, begun, player.play)
        except REFUSALS as error:
            return Refusal(str(error))
        finally:
            self._slot.end(begun)

    def reserve(self, offer: Offer | bytes) -> bytes | Refusal | None:
        """Charges for an offer that the application will train for by itself.

        Call it before the application touches private data, and call `release` afterwards. Returns
        None if the application should now train. If the offer was reserved before, for instance by
        a process that died since then, its stored answer is returned: send that, and do not train.
        Returns a `Refusal` if the device does not accept the offer.

        Once `reserve` has returned None, the offer is paid for and has an answer, even if training
        fails or is killed. So a failure is never a silence that costs no ε.
        """
        begun = self._slot.begin()
        try:
            understood = _understood(offer)
            before = self._charge(understood)
        except REFUSALS as error:
            self._slot.end(begun)
            return Refusal(str(error))
        if before is None:
            self._reserved[understood.offer_id] = understood.digest, begun
        else:
            self._slot.end(begun)
        return before

    def release(
        self, offer: Offer | bytes, gradient: Any, *, success: bool | None = None
    ) -> bytes | Refusal:
        """Randomises a gradient that the application computed, and returns the report (step 3).

        `gradient` is any array-like with as many numbers as θ. `success` says whether the score
        reached Θ; it is needed if the offer asks for the noisy boolean. The same offer always gets
        the same bytes, whatever gradient is passed later.

        If the gradient is invalid (None, text, or of the wrong length) or `success` is missing, the
        report carries no information but costs the same, and the error is logged: a refusal would
        reveal that training failed.

        Without a call of `reserve` before training, the guarantee begins at this call: how long
        training took, or that it never finished, may then reveal private data.
        """
        begun = self._slot.begin()
        try:
            understood = _understood(offer)
            digest = understood.digest
            reserved, since = self._reserved.pop(understood.offer_id, (None, begun))
            begun = since if reserved == digest else begun
            if reserved != digest:
                before = self._charge(understood)
                if before is not None:
                    return before
            return self._report(
                understood, begun, lambda asked, _: (_projected(asked, gradient), success)
            )
        except REFUSALS as error:
            return Refusal(str(error))
        finally:
            self._slot.end(begun)

    def _charge(
        self, offer: Offer, objection: Callable[[Offer], str | None] | None = None
    ) -> bytes | None:
        """Charges for an offer, and stores a report that says nothing: before anything is played.

        Returns the answer of an offer that was charged for before; else None.
        """
        before = self._ledger.answered(offer.offer_id, offer.digest)
        if before is not None:
            return before
        self._demand_acceptable(offer)
        if objection is not None and (reason := objection(offer)) is not None:
            raise _Refused(reason)
        with self._slot.measured():
            blank = _blank(offer)
            return self._ledger.reserve(
                offer.offer_id,
                offer.digest,
                offer.query.cost,
                blank,
                slot=self._slot.milliseconds,
            )

    def _report(self, offer: Offer, begun: float, play: Play) -> bytes:
        """Plays the offer, draws a report, and returns the bytes once they are sealed.

        If play fails or is late, the blank report that `_charge` stored is returned. This is
        decided before the draw and never after it: which of the two reports leaves may depend on
        private data, but not on private data and the drawn bits together.
        """
        try:
            with spare_files():
                vector, success = self._slot.play(begun, lambda stop: _checked(play, offer, stop))
        except (KeyboardInterrupt, SystemExit):
            raise
        except Late as late:
            log.warning(
                "%s; a report without a direction answers offer %016x", late, offer.offer_id
            )
            return self._seal(offer, begun)
        except BaseException:
            log.exception(
                "what offer %016x asks for could not be made; a report without a direction "
                "answers it",
                offer.offer_id,
            )
            return self._seal(offer, begun)
        drawing = time.perf_counter()
        report = _draw(offer, vector, success)
        seconds = offer.query.mechanism.release_seconds
        if seconds and not self._slot.seconds:  # the end of a slot hides how long a draw took
            wait(drawing, seconds)
        return self._seal(offer, begun, report)

    def _seal(self, offer: Offer, begun: float, report: bytes | None = None) -> bytes:
        """Returns the bytes that answer a reserved offer, once they are sealed.

        The ledger worked before play, so a failure now may be caused by play (which may have filled
        the disk), and a refusal would reveal that. So a failed attempt is repeated at the end of a
        slot, up to `SEALING` times; then `Unanswered` is raised.
        """
        for attempt in range(SEALING + 1):
            try:
                return self._ledger.seal(offer.offer_id, offer.digest, report)
            except LedgerError as error:
                log.error("the answer to offer %016x cannot be stored: %s", offer.offer_id, error)
                if attempt == SEALING:
                    raise Unanswered(
                        f"offer {offer.offer_id:016x} is paid for, and its answer cannot be stored "
                        f"({error}); ask again when the ledger can be written"
                    ) from None
            self._slot.end(begun)
            if not self._slot.seconds:
                time.sleep(0.1)
        raise AssertionError  # never: the last attempt returned or raised

    def _demand_acceptable(self, offer: Offer) -> None:
        """Raises `_Refused` if this device does not accept the offer, before anything is played.

        `Ledger.reserve` checks the balance again, inside its transaction.
        """
        query, (most, spent) = offer.query, self._ledger.charged
        if query.name not in self._accepts:
            raise _Refused(f"this device does not accept {query.name}")
        if self._most is not None and query.cost > self._most:
            raise _Refused(
                f"a report for {epsilon_text(query.cost)}; this device gives at most "
                f"{epsilon_text(self._most)} "
                "at once"
            )
        if query.cost > most - spent:
            raise _Refused(not_enough(query.cost, spent, most))
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
        seconds = offer.query.mechanism.release_seconds
        if self._slot.seconds and seconds > self._slot.for_drawing:
            raise _Refused(
                f"drawing the report could take {seconds:.2g} s; slots of {self._slot.seconds:g} s "
                f"leave {self._slot.for_drawing:.2g} s for that"
            )


SEALING = 3
"""How often an answer that cannot be stored is tried again."""


class Unanswered(PgcError):
    """Raised when a report is paid for but the ledger cannot be written.

    A later call with the same offer returns the report, and charges nothing.
    """


@contextmanager
def spare_files() -> Iterator[None]:
    """Keeps some file descriptors while a world plays, and frees them for the ledger afterwards: a
    world that opens files without end must not be able to silence its device.
    """
    spare = []
    with contextlib.suppress(OSError):
        for _ in range(SPARE_FILES):
            spare.append(os.open(os.devnull, os.O_RDONLY))
    try:
        yield
    finally:
        for file in spare:
            os.close(file)


SPARE_FILES = 8
"""More than a commit and its mark take."""
REFUSALS = (_Refused, Malformed, OtherOffer, BudgetSpent, LedgerError)
"""What becomes a `Refusal`; each is for reasons that are public."""


def _understood(offer: Offer | bytes) -> Offer:
    return offer if isinstance(offer, Offer) else Offer.decode(offer)


def _checked(play: Play, offer: Offer, stop: Callable[[], bool]) -> tuple[np.ndarray, bool]:
    """Returns what is to be randomised, in the form that mechanisms take."""
    with np.errstate(all="ignore"):  # whatever the application set: no gradient may raise
        vector, success = play(offer, stop)
        if offer.query.score_nano_epsilon and success is None:
            raise ValueError("the offer asks for the noisy boolean, and success is missing")
        return as_vector(vector).reshape(offer.query.dim), bool(success)


def _projected(offer: Offer, gradient: Any) -> np.ndarray:
    """Returns Wᵀ g, what the offer asks for of a gradient in θ-space."""
    vector = as_vector(gradient).ravel()
    if vector.size != offer.theta.size:
        raise ValueError(
            f"the gradient has {vector.size} numbers; θ of the offer has {offer.theta.size}"
        )
    return vector if offer.basis is None else offer.basis.T @ clip_elements(vector, HUGE)


def _blank(offer: Offer) -> bytes:
    """Draws a report that says nothing: the mechanism's own, of zeros, and of no success.

    It is drawn before private data are touched, with fresh bits, so it is independent of them.
    """
    try:
        return _draw(offer, np.zeros(offer.query.dim), False)
    except Exception as error:  # a mechanism from outside; those of pgc never raise
        raise _Refused(f"{offer.query.name} cannot randomise: {in_one_line(error)}") from None


def _draw(offer: Offer, vector: np.ndarray, success: bool | None) -> bytes:
    """Returns the bytes of one report, for any gradient.

    The mechanisms of pgc never raise. If one from outside pgc raises for some gradients, sending no
    report would reveal which: a report of zeros is drawn instead. That this works was tried before
    anything was played (`_blank`).
    """
    with np.errstate(all="ignore"):
        try:
            return draw_report(offer, vector, success)
        except Exception:
            if not vector.any():
                raise
            log.exception(
                "%s cannot randomise a gradient; a report of zeros answers", offer.query.name
            )
            return draw_report(offer, np.zeros(offer.query.dim), success)
