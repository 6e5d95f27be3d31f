"""Slots: a device answers a fixed time after it was asked, so that timing reveals nothing.

Play has a deadline within the slot, which leaves time to draw and store the report.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pgc.errors import PgcError

DEFAULT_SLOT = 30.0
"""Seconds from an offer to its answer on a device that plays, unless the installer sets others."""
PLAY_SHARE = 0.75
"""The part of a slot in which play must finish. The rest is for drawing and for the ledger."""
DRAW_SHARE = 0.125
"""The part of a slot that drawing a report may take, by the mechanism's own bound."""
SLOWER = 8.0
"""Drawing and storing the real report is allowed this many times the time that the blank one
took."""
LONGEST_SLOT = 86_400.0


class Late(Exception):
    """Play had not finished at its deadline."""


class Slot:
    """The slots of one device. Each lasts `seconds`; with 0 there are none, and nothing waits."""

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= LONGEST_SLOT:
            raise PgcError(
                f"slot_seconds must be from 0 to a day, not {seconds:g}; with 0 there are no "
                "slots, and then the time of a report tells of this device's world"
            )
        self.seconds = seconds
        self._playing: threading.Thread | None = None
        self._seconds_after_play = 0.0

    @property
    def for_drawing(self) -> float:
        """Seconds of a slot that drawing a report may take."""
        return DRAW_SHARE * self.seconds

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measures how long the work inside the context takes, to set the deadline of play.

        The work is to draw the blank report and to store it, which depends on public values only.
        The same is done after play for the real report, so play must end early enough for it.
        """
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds_after_play = SLOWER * (time.perf_counter() - begun)

    @property
    def milliseconds(self) -> int:
        """How long a slot is, as a ledger records it; 0 only where there is none."""
        return max(1, round(1000 * self.seconds)) if self.seconds else 0

    def begin(self) -> float:
        """Returns the moment in which a slot begins: now."""
        return time.perf_counter()

    def late(self, begun: float) -> bool:
        """Whether the deadline of play in the slot that began then has passed."""
        return bool(self.seconds) and self._left(begun) <= 0

    def play(self, begun: float, work: Callable[[Callable[[], bool]], Any]) -> Any:
        """Returns what `work` returns, if it does so before the deadline; else raises `Late`.

        `work` is given a function that says whether it should stop. It runs in a thread of its own,
        so that the answer leaves in time whatever `work` does. While an earlier one has not stopped
        yet, nothing new is begun.
        """
        if not self.seconds:
            return work(lambda: False)
        if self._playing is not None and self._playing.is_alive():
            raise Late("an earlier play has not stopped yet")
        if self.late(begun):
            raise Late("the deadline of play passed before it began")
        made: list[tuple[Any, BaseException | None]] = []
        stop = threading.Event()

        def body() -> None:
            try:
                made.append((work(stop.is_set), None))
            except BaseException as error:
                made.append((None, error))

        self._playing = threading.Thread(target=body, daemon=True, name="pgc play")
        self._playing.start()
        try:
            self._playing.join(max(0.0, self._left(begun)))
        finally:
            stop.set()
        if self._playing.is_alive() or self.late(begun):
            raise Late(f"play had not finished after {self._seconds_to_play:.3g} s")
        value, error = made[0]
        if error is not None:
            raise error
        return value

    def end(self, begun: float) -> None:
        """Waits until a whole number of slots has passed since then: one, if all went well."""
        if self.seconds:
            wait(begun, self.seconds)

    def _left(self, begun: float) -> float:
        return begun + self._seconds_to_play - time.perf_counter()

    @property
    def _seconds_to_play(self) -> float:
        """Seconds of a slot in which play must finish."""
        return min(PLAY_SHARE * self.seconds, self.seconds - self._seconds_after_play)


def wait(begun: float, seconds: float) -> None:
    """Waits until the time since `begun` is a whole multiple of `seconds`."""
    time.sleep(seconds - (time.perf_counter() - begun) % seconds)
