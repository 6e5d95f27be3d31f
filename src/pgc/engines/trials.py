"""What drives the four steps, as its callers see it: compiled trials, or trials on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pgc.engines.crew import Crew


class Happened(NamedTuple):
    """Reports that arrived, one entry each, ordered by trial and then by arrival."""

    trial: np.ndarray
    n: np.ndarray  # index of the submission within its trial, starting at 1
    score: np.ndarray
    steps: np.ndarray
    staleness: np.ndarray
    tick: np.ndarray
    bit: np.ndarray


class Trials(Protocol):
    """Trials in progress. `advance` plays on; everything else reads or sets the state."""

    lanes: int
    """Trials that advance together."""
    watched: bool
    """Whether somebody stops trials when they have succeeded."""

    @property
    def running(self) -> bool:
        """Whether any trial still collects."""

    @property
    def collecting(self) -> np.ndarray:
        """Which trials still collect, (trials,)."""

    def advance(self, crew: Crew | None = None) -> Iterator[Happened]:
        """Play on for a while, and tell what arrived."""

    def stop(self, trials: Sequence[int]) -> None:
        """Let these trials collect no more."""

    def collected(self, name: str) -> np.ndarray:
        """A field of every trial's aggregator, trials first."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state by name, for a checkpoint."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Put back what `arrays` gave, exactly."""
