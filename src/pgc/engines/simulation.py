"""The interface of a simulation: trials in progress, compiled (`compiled_simulation.py`) or on the
host (`host.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pgc.engines.crew import Crew


class Arrivals(NamedTuple):
    """Reports that arrived, one entry each, ordered by trial and then by arrival."""

    trial: np.ndarray
    n: np.ndarray  # index of the submission within its trial, starting at 1
    score: np.ndarray
    steps: np.ndarray
    staleness: np.ndarray
    tick: np.ndarray
    bit: np.ndarray


class Simulation(Protocol):
    """Trials in progress. `advance` plays on; everything else reads or sets the state."""

    lanes: int
    """How many trials advance together."""
    stopped_by_caller: bool
    """Whether the caller stops trials that have succeeded, and so needs to be told often."""

    @property
    def running(self) -> bool:
        """Whether any trial still collects reports."""

    @property
    def collecting(self) -> np.ndarray:
        """Which trials still collect reports, (trials,)."""

    def advance(self, crew: Crew | None = None) -> Iterator[Arrivals]:
        """Plays on for a while, and yields the reports that arrived."""

    def stop(self, trials: Sequence[int]) -> None:
        """Stops these trials: they collect no more reports."""

    def aggregator_field(self, name: str) -> np.ndarray:
        """Returns a field of every trial's `AggregatorState`; the first axis is the trial."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the whole state as named arrays, for a checkpoint."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores exactly the state that `arrays` returned."""
