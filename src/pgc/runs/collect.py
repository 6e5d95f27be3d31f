"""The one loop that collects: play on, note what arrived, write a checkpoint now and then, stop.

`pgc train` collects one problem and keeps every row; a sweep collects many and keeps outcomes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from pgc.engines.backend import advance
from pgc.engines.crew import Crew
from pgc.engines.trials import Happened, Trials
from pgc.errors import PgcError


class Work(Protocol):
    """What is collected, and what is kept of it."""

    def running(self) -> Sequence[Trials]:
        """Returns the trials that still collect, in a fixed order."""

    def note(self, trials: Trials, happened: Happened) -> None:
        """Take what arrived in one block of these trials."""

    def settle(self) -> None:
        """Called after every round: stop what is done, and tell how far it is."""

    def overdue(self) -> bool:
        """Whether a checkpoint is due, whatever the time."""

    def checkpoint(self) -> None:
        """Write all that is needed to continue from here, bit for bit."""


def collect(
    work: Work,
    crew: Crew | None,
    *,
    stop_asked: Callable[[], bool],
    checkpoint_seconds: float,
    resume: str,
) -> bool:
    """Plays until every trial is done. Returns False if asked to stop: a checkpoint is there then.

    `resume` says how to continue, for the error of an environment or of a crew that is lost.
    """
    written = time.monotonic()
    while running := work.running():
        try:
            for which, happened in advance(running, crew):
                work.note(running[which], happened)
        except PgcError as error:
            work.checkpoint()
            raise PgcError(f"{error}; what was done is kept{resume}") from None
        work.settle()
        stopping = stop_asked()
        if stopping or work.overdue() or time.monotonic() - written > checkpoint_seconds:
            work.checkpoint()
            written = time.monotonic()
        if stopping:
            return False
    return True
