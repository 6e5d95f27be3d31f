"""The loop that collects submissions, with a checkpoint now and then, until every trial is done.

`pgc train` collects for one problem and keeps a row for each submission; a sweep collects for many
problems and keeps only their outcomes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from pgc.engines.backend import advance
from pgc.engines.crew import Crew
from pgc.engines.simulation import Arrivals, Simulation
from pgc.errors import PgcError


class Work(Protocol):
    """The simulations that `collect` plays, and the record that is kept of their submissions."""

    def running(self) -> Sequence[Simulation]:
        """Returns the simulations that still collect, in a fixed order."""

    def note(self, simulation: Simulation, happened: Arrivals) -> None:
        """Records the submissions that arrived in one block of `simulation`."""

    def end_pass(self) -> None:
        """Stops trials that are done, and reports progress. Called after every pass."""

    def overdue(self) -> bool:
        """Returns whether a checkpoint is due now, however recent the last one is."""

    def checkpoint(self) -> None:
        """Writes all that is needed to continue from here to bit-identical results."""


def collect(
    work: Work,
    crew: Crew | None,
    *,
    stop_asked: Callable[[], bool],
    checkpoint_seconds: float,
    how_to_go_on: str,
) -> bool:
    """Plays until every trial is done. Returns False if it was asked to stop.

    It writes a checkpoint every `checkpoint_seconds` and before it stops. If an environment fails
    or a crew is lost, `how_to_go_on` is appended to the error, to say how to continue.
    """
    written = time.monotonic()
    while running := work.running():
        try:
            for which, happened in advance(running, crew):
                work.note(running[which], happened)
        except PgcError as error:
            work.checkpoint()
            raise PgcError(f"{error}; what was done is kept{how_to_go_on}") from None
        work.end_pass()
        stopping = stop_asked()
        if stopping or work.overdue() or time.monotonic() - written > checkpoint_seconds:
            work.checkpoint()
            written = time.monotonic()
        if stopping:
            return False
    return True
