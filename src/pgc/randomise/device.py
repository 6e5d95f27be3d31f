"""`Device`: steps 2 and 3 on a real device. An offer in; report bytes, or a refusal, out. The only
door.

    1 understand the offer, refuse what this device does not accept
    2 charge, and store a report that says nothing: the answer, if anything below fails
    3 play the offer in the device's own world, until a deadline
    4 randomise, and store the report in the place of the first
    5 return the stored bytes at the end of a slot

**Guarantee.** Whatever offers come, in whatever order, from whomever, and whenever the process is
killed: all that ever leaves through this door is ε-LDP for the device's private data, with the ε of
its ledger. A refusal depends on the offer, on this device's settings and on what was charged
before, never on a gradient or a score. No outcome of play is free, or goes unanswered: not an
exception, not a kill for memory, not a play that never ends (docs/guarantees.md).
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

from pgc.errors import BudgetSpent, PgcError, in_one_line
from pgc.randomise.budget import epsilon_of, nano_of
from pgc.randomise.ledger import Balance, Ledger, LedgerError, OtherOffer, words
from pgc.randomise.mechanisms.clip import HUGE, clip_elements
from pgc.randomise.mechanisms.forms import FIRST_OUTSIDE
from pgc.randomise.mechanisms.registry import ON_THE_WIRE
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.release import as_vector, release, release_score
from pgc.randomise.slots import DEFAULT_SLOT, Late, Slot, wait
from pgc.wire import Malformed, Offer, Report
from pgc.wire.report import size_of

log = logging.getLogger("pgc.device")
EXACT = tuple(kind.name for number, kind in ON_THE_WIRE.items() if number < FIRST_OUTSIDE)
"""The mechanisms of pgc that may leave a device. One from outside may as well, if the application
names it in `accepts`."""
Numbers = Callable[[Offer, Callable[[], bool]], Any]
"""Makes what is to be randomised, and whether the score reached Θ, of an offer. It is also given a
function that says whether to stop."""


@dataclass(frozen=True)
class Refusal:
    """Nothing leaves, and nothing was played. The reason is public."""

    reason: str


class _Refused(Exception):
    """By this module alone, for reasons that are public: nobody else's exception can become the
    words of a refusal.
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
        accepts: Collection[str] = EXACT,
        most_epsilon: float | None = None,
        most_episodes: int = 1000,
        most_bytes: int = 2**12,
        slot_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A device with this ledger.

        `accepts`: mechanisms that it is willing to use. `most_epsilon`: the most that one report
        may cost; by default all that is left. `most_bytes`: of one report; each is kept for
        ever. `slot_seconds`: every answer leaves so long after it was asked for, so that time says
        nothing; `pgc slot` measures how long is long enough. (Training that takes longer than a
        slot, between `reserve` and `release`, shows.) By default a device that plays has slots of
        30 s, and one without a player none, because it does not know when training began. 0
        switches slots off: the time of a report then tells of this device's world, and the ledger
        records that it left so. `clock`: by which an offer has expired; a late report is of no use,
        and no risk, so this may be the aggregator's.
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
        """Makes a device with a new ledger, whose limit is ε for life: once, when it is installed.

        With `device_id`, a name that this device alone has, a second ledger is refused, also after
        the first was lost.
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
        """Steps 2 and 3: play the offer's policy in this device's world, and report."""
        player = self._player
        if player is None:
            raise PgcError(
                "this device has no world to play in; give Device a player, or use release"
            )
        begun = self._slot.begin()
        try:
            understood = _understood(offer)
            before = self._charged(understood, player.objection)
            return before or self._report(understood, begun, player.play)
        except REFUSALS as error:
            return Refusal(str(error))
        finally:
            self._slot.end(begun)

    def reserve(self, offer: Offer | bytes) -> bytes | Refusal | None:
        """Charges for an offer before it is trained for elsewhere: call it before private data are
        touched, and `release` afterwards.

        Returns None if the offer is this device's to train for. If it was reserved before, and the
        process died since then, its answer is returned: send that, and do not train. Whatever
        happens between `reserve` and `release`, the offer is paid for and has an answer; so a
        training that fails, or is killed, is not a silence that costs nothing.
        """
        begun = self._slot.begin()
        try:
            understood = _understood(offer)
            before = self._charged(understood)
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
        """Step 3 for a gradient that was made elsewhere: any array-like with as many numbers as θ.

        `success` says whether the score reached Θ, where the offer asks for the noisy boolean.
        Asked again with the same offer it returns the same bytes, whatever the gradient is now.
        What is no gradient at all (None, a wrong length, text), and a success that is missing, get
        a report without a direction, at the same price, and a line in the log: a refusal would tell
        that training failed. Without `reserve` before it, the guarantee begins here: that training
        took long, was killed, or never got here, may tell of private data.
        """
        begun = self._slot.begin()
        try:
            understood = _understood(offer)
            digest = understood.digest
            reserved, since = self._reserved.pop(understood.offer_id, (None, begun))
            begun = since if reserved == digest else begun
            if reserved != digest:
                before = self._charged(understood)
                if before is not None:
                    return before
            return self._report(
                understood, begun, lambda asked, _: (_projected(asked, gradient), success)
            )
        except REFUSALS as error:
            return Refusal(str(error))
        finally:
            self._slot.end(begun)

    def _charged(
        self, offer: Offer, objection: Callable[[Offer], str | None] | None = None
    ) -> bytes | None:
        """Charges for an offer, and stores a report that says nothing: before anything is played.

        Returns the answer of an offer that was charged for before; else None.
        """
        before = self._ledger.answered(offer.offer_id, offer.digest)
        if before is not None:
            return before
        self._refuse(offer)
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

    def _report(self, offer: Offer, begun: float, numbers: Numbers) -> bytes:
        """Plays, draws and seals. Whatever goes wrong with play, the blank report is the answer.

        Between the draw and the seal nothing decides: which of the two reports leaves may depend on
        private data, but never on private data and the drawn bits together.
        """
        try:
            with spare_files():
                vector, success = self._slot.play(
                    begun, lambda stop: _checked(numbers, offer, stop)
                )
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
        report = _drawn(offer, vector, success)
        seconds = offer.query.mechanism.release_seconds
        if seconds and not self._slot.seconds:  # the end of a slot hides how long a draw took
            wait(drawing, seconds)
        return self._seal(offer, begun, report)

    def _seal(self, offer: Offer, begun: float, report: bytes | None = None) -> bytes:
        """Returns the bytes that answer a reserved offer, once they are sealed.

        A ledger that fails now was fine before play, so play may be why (it filled the disk, say):
        a refusal would tell. So this tries again at the end of each slot, and then raises.
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

    def _refuse(self, offer: Offer) -> None:
        """Before anything is played or drawn. `reserve` looks at the balance again, under its
        lock.
        """
        query, (most, spent) = offer.query, self._ledger.charged
        left = most - spent
        if query.name not in self._accepts:
            raise _Refused(f"this device does not accept {query.name}")
        if self._most is not None and query.cost > self._most:
            raise _Refused(
                f"a report for {words(query.cost)}; this device gives at most {words(self._most)} "
                "at once"
            )
        if query.cost > left:
            raise _Refused(
                f"this costs {words(query.cost)} and {words(left)} of {words(most)} is left"
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
        seconds = offer.query.mechanism.release_seconds
        if self._slot.seconds and seconds > self._slot.for_drawing:
            raise _Refused(
                f"drawing the report could take {seconds:.2g} s; slots of {self._slot.seconds:g} s "
                f"leave {self._slot.for_drawing:.2g} s for that"
            )


SEALING = 3
"""How often an answer that cannot be stored is tried again."""


class Unanswered(PgcError):
    """A report was paid for, and cannot be returned now: asked again, the device returns it."""


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


def _checked(numbers: Numbers, offer: Offer, stop: Callable[[], bool]) -> tuple[np.ndarray, bool]:
    """Returns what is to be randomised, in the form that mechanisms take."""
    with np.errstate(all="ignore"):  # whatever the application set: no gradient may raise
        vector, success = numbers(offer, stop)
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
        return _drawn(offer, np.zeros(offer.query.dim), False)
    except Exception as error:  # a mechanism from outside; those of pgc never raise
        raise _Refused(f"{offer.query.name} cannot randomise: {in_one_line(error)}") from None


def _drawn(offer: Offer, vector: np.ndarray, success: bool | None) -> bytes:
    """The bytes of one report, whatever the gradient is.

    The mechanisms of pgc never raise. One from outside that does, for some gradients, would tell of
    them by its silence: zeros stand in, with which it was tried before anything was played.
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
