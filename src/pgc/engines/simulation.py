"""All trials of a run: blocks of lanes, one thread per core, and the whole state as named arrays for a checkpoint.

On a CPU every block has the same number of lanes whatever the number of trials, padded with lanes that never run: XLA
rounds differently at different widths, and one bit eventually flips an action. So trial i is the same alone or beside others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import Problem
from pgc.engines.embedded import Engine, State, trial_seeds
from pgc.errors import PgcError

CPU_LANES = 32
GPU_LANES_MULTIPLE = 128
TURNS = 1024
"""Turns between two looks at what happened: a fraction of a second."""


class Happened(NamedTuple):
    """Delivered reports of one trial, in order."""

    trial: int
    score: np.ndarray
    steps: np.ndarray
    staleness: np.ndarray
    tick: np.ndarray
    bit: np.ndarray


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
        """Play on for a while in every block, and tell what was delivered, trial by trial."""
        results = list(self._pool.map(lambda block: self._advance_block(block), self._blocks))
        self._blocks = [state for state, _ in results]
        for b, (_, records) in enumerate(results):
            for lane in range(min(self.lanes, self.trials - b * self.lanes)):
                when = records.delivered[:, lane]
                yield Happened(
                    b * self.lanes + lane,
                    records.score[when, lane],
                    records.ticks[when, lane],
                    records.staleness[when, lane],
                    records.ends[when, lane],
                    records.bit[when, lane],
                )

    def _advance_block(self, block: State) -> tuple[State, Any]:
        state, records = self.engine.advance(block, TURNS)
        return state, jax.device_get(records)

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
