"""All trials of a run: blocks of lanes, one thread per core, and the whole state as named arrays for a checkpoint.

On a CPU every block has the same number of lanes whatever the number of trials, padded with idle ones: XLA rounds differently at
different widths, and one bit eventually flips an action. So trial i is the same alone or beside others. Trials end at different
times; those that still run are packed together anew whenever fewer blocks would hold them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.engines.embedded import Engine, Record, State, trial_seeds
from pgc.errors import PgcError
from pgc.problem import Problem

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
        self._blocks: list[Block] = []
        for first in range(0, self.trials, self.lanes):
            trials = first + np.arange(self.lanes)
            state = self.engine.start(trial_seeds(config.seed, trials), trials < self.trials)
            self._blocks.append(Block(trials, state))
        self._home: State = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=-1), *(b.state for b in self._blocks))

    @property
    def running(self) -> bool:
        """Whether any trial still collects."""
        return any(bool(jnp.any(block.state.running)) for block in self._blocks)

    def advance(self) -> Iterator[Happened]:
        """Play on for a while in every block, and tell what was delivered."""
        for trials, r in self._play_on(jax.device_get):
            lane, turn = np.nonzero(r.delivered.T)
            arrays = (column[turn, lane] for column in (r.n, r.score, r.ticks, r.staleness, r.ends, r.bit))
            yield Happened(trials[lane].astype(np.int32), *arrays)

    def advance_counting(self) -> tuple[int, int]:
        """Play on likewise, and count only: environment steps and submissions, without bringing records to the host."""
        counts = [counted for _, counted in self._play_on(lambda r: jax.device_get(count(r)))]
        return sum(int(steps) for steps, _ in counts), sum(int(submissions) for _, submissions in counts)

    def collected(self, name: str) -> np.ndarray:
        """A field of every trial's aggregator, trials first: `theta`, `average`, `received`, `version`, …"""
        self._bring_home()
        by_trial: np.ndarray = np.moveaxis(getattr(self._home.aggregator, name), -1, 0)[: self.trials].copy()
        return by_trial

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state, by name."""
        self._bring_home()
        return {_name(path): leaf.copy() for path, leaf in jax.tree_util.tree_leaves_with_path(self._home)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Put back what `arrays` gave, exactly."""
        mine = self.arrays()
        if {k: (v.shape, v.dtype) for k, v in arrays.items()} != {k: (v.shape, v.dtype) for k, v in mine.items()}:
            raise PgcError("the checkpoint is of another configuration or version of pgc; start a new run")
        self._home = jax.tree_util.tree_map_with_path(lambda path, _: arrays[_name(path)].copy(), self._home)
        self._pack()

    def _play_on(self, take: Callable[[Record], Any]) -> list[tuple[np.ndarray, Any]]:
        """Advance every block, one thread per core, and take something from each block's records."""
        most = max(1, min(MOST_TURNS, LANE_TURNS // self.lanes))

        def one(block: Block) -> tuple[Block, Any]:
            state, records = self.engine.advance(block.state, most)
            return Block(block.trials, state), take(records)

        results = list(self._pool.map(one, self._blocks))
        self._blocks = [block for block, _ in results]
        left = sum(int(jnp.sum(block.state.running)) for block in self._blocks)
        if -(-left // self.lanes) < len(self._blocks):
            self._bring_home()
            self._pack()
        return [(block.trials, taken) for block, taken in results]

    def _bring_home(self) -> None:
        """Copy every block back to the state by trial."""
        for trials, state in self._blocks:
            for home, leaf in zip(jax.tree.leaves(self._home), jax.tree.leaves(state), strict=True):
                home[..., trials] = np.asarray(leaf)

    def _pack(self) -> None:
        """Put the trials that still run side by side, in as few blocks as hold them; the rest of a block is idle lanes."""
        running = np.flatnonzero(self._home.running)
        idle = np.flatnonzero(~self._home.running)
        self._blocks = []
        for first in range(0, len(running), self.lanes):
            some = running[first : first + self.lanes]
            trials = np.concatenate([some, idle[: self.lanes - len(some)]])
            state = jax.tree.map(lambda leaf, t=trials: jnp.asarray(leaf[..., t]), self._home)
            self._blocks.append(Block(trials, state))


class Block(NamedTuple):
    """Some trials that advance together, one in each lane."""

    trials: np.ndarray
    state: State


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path)
