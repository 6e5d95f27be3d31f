"""All trials of a run: blocks of lanes, one thread per core, and the whole state as named arrays for a checkpoint.

On a CPU every block has the same number of lanes whatever the number of trials, padded with lanes that never run: XLA
rounds differently at different widths, and one bit eventually flips an action. So trial i is the same alone or beside others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import Problem
from pgc.engines.embedded import Engine, Record, State, trial_seeds
from pgc.errors import PgcError

CPU_LANES = 32
GPU_LANES_MULTIPLE = 128
LANE_TURNS = 2**21
MOST_TURNS = 1024
"""Turns between two looks at what happened: a fraction of a second, and records of a few megabytes."""


class Happened(NamedTuple):
    """Delivered reports, one entry each, ordered by trial and then by arrival."""

    trial: np.ndarray
    n: np.ndarray
    score: np.ndarray
    steps: np.ndarray
    staleness: np.ndarray
    tick: np.ndarray
    bit: np.ndarray


@jax.jit
def count(records: Record) -> tuple[jax.Array, jax.Array]:
    """Environment steps and submissions in some records."""
    return jnp.sum(jnp.where(records.delivered, records.ticks, 0)), jnp.sum(records.delivered)


class Simulation:
    """A run in progress."""

    def __init__(self, problem: Problem) -> None:
        config = problem.config
        self.trials = config.trials
        self.engine = Engine(
            training=problem.training,
            aggregator=problem.aggregator,
            workers=config.workers,
            submissions=config.submissions,
            initial=config.initial,
            stop_rate=config.stop_rate,
            stop_window=config.stop_window,
        )
        on_cpu = jax.default_backend() == "cpu"
        self.lanes = CPU_LANES if on_cpu else -(-self.trials // GPU_LANES_MULTIPLE) * GPU_LANES_MULTIPLE
        self._pool = ThreadPoolExecutor(os.cpu_count() if on_cpu else 1)
        self._blocks: list[State] = []
        for first in range(0, self.trials, self.lanes):
            trials = first + np.arange(self.lanes)
            self._blocks.append(self.engine.start(trial_seeds(config.seed, trials), trials < self.trials))

    @property
    def running(self) -> bool:
        """Whether any trial still collects."""
        return any(bool(jnp.any(block.running)) for block in self._blocks)

    def advance(self) -> Iterator[Happened]:
        """Play on for a while in every block, and tell what was delivered."""
        for b, r in enumerate(self._play_on(jax.device_get)):
            lane, turn = np.nonzero(r.delivered.T)
            arrays = (column[turn, lane] for column in (r.n, r.score, r.ticks, r.staleness, r.ends, r.bit))
            yield Happened((b * self.lanes + lane).astype(np.int32), *arrays)

    def advance_counting(self) -> tuple[int, int]:
        """Play on likewise, and count only: environment steps and submissions, without bringing records to the host."""
        steps, submissions = zip(*self._play_on(lambda r: jax.device_get(count(r))), strict=True)
        return int(sum(steps)), int(sum(submissions))

    def _play_on(self, take: Callable[[Record], Any]) -> list[Any]:
        """Advance every block, one thread per core, and take something from each block's records."""

        def one(block: State) -> tuple[State, Any]:
            state, records = self.engine.advance(block, max(1, min(MOST_TURNS, LANE_TURNS // self.lanes)))
            return state, take(records)

        results = list(self._pool.map(one, self._blocks))
        self._blocks = [state for state, _ in results]
        return [taken for _, taken in results]

    def collected(self, name: str) -> np.ndarray:
        """A field of every trial's aggregator, trials first: `theta`, `average`, `received`, `version`, …"""
        arrays = [np.asarray(getattr(block.aggregator, name)) for block in self._blocks]
        return np.moveaxis(np.concatenate(arrays, axis=-1), -1, 0)[: self.trials]

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state, by name."""
        return {
            f"{b}/{jax.tree_util.keystr(path)}": np.asarray(leaf)
            for b, block in enumerate(self._blocks)
            for path, leaf in jax.tree_util.tree_leaves_with_path(block)
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Put back what `arrays` gave, exactly."""
        mine = self.arrays()
        if {k: (v.shape, v.dtype) for k, v in arrays.items()} != {k: (v.shape, v.dtype) for k, v in mine.items()}:
            raise PgcError("the checkpoint is of another configuration or version of pgc; start a new run")
        self._blocks = [
            jax.tree_util.tree_map_with_path(lambda path, _, b=b: jnp.asarray(arrays[f"{b}/{jax.tree_util.keystr(path)}"]), block)
            for b, block in enumerate(self._blocks)
        ]  # fmt: skip
