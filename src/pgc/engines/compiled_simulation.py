"""Runs compiled trials side by side, in blocks of lanes, with one thread per core.

A simulation runs the trials of one problem, or of several that share one program (see
`tracing.py`), such as cells of a sweep that differ in ε, C, |B| or N, or in being a control. For a
checkpoint it returns its whole state as named arrays.

On a CPU every block has the same number of lanes whatever the number of trials, padded with idle
ones: XLA rounds differently at different widths, and a difference of one bit eventually changes an
action. So trial i is the same alone or beside others. Trials end at different times; those that
still run are packed together again whenever they fit into fewer blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import to_yaml
from pgc.config.problem import Problem
from pgc.engines.compiled import Engine, Record, State, engine_of, in_lanes, trial_seeds
from pgc.engines.crew import Crew
from pgc.engines.jobs import Job
from pgc.engines.program import arrived, leaves
from pgc.engines.simulation import Arrivals
from pgc.errors import PgcError

CPU_LANES = 32
GPU_LANES_MULTIPLE = 128
LANE_TURNS = 2**21
MOST_TURNS = 1024
"""The most turns that are played before their records are read. They take a fraction of a second,
and their records a few megabytes."""
TURNS_AWAY = 4
"""A crew plays this many times as many turns before it returns a block, because the arrays that
travel have the same size however long it plays."""


class Block(NamedTuple):
    """Some trials that advance together, one in each lane."""

    trials: np.ndarray
    engine: Engine
    state: State


@jax.jit
def count(records: Record) -> tuple[jax.Array, jax.Array]:
    """Returns the environment steps and the submissions in some records."""
    return jnp.sum(jnp.where(records.arrived, records.ticks, 0)), jnp.sum(records.arrived)


class CompiledSimulation:
    """The trials of one problem or of several, those of the first problem first.

    It implements `Simulation`.
    """

    def __init__(self, *problems: Problem) -> None:
        self.config_text = to_yaml(problems[0].config)
        """The config of the first problem, which stands for the program that all of them share."""
        self.stopped_by_caller = False
        """Whether the caller stops trials that have succeeded. When it does so depends on how many
        turns `advance` plays, so a crew then plays no more turns than this process would."""
        self.trials = sum(problem.config.trials for problem in problems)
        on_cpu = jax.default_backend() == "cpu"
        self.lanes = (
            CPU_LANES if on_cpu else -(-self.trials // GPU_LANES_MULTIPLE) * GPU_LANES_MULTIPLE
        )
        padded = -(-self.trials // self.lanes) * self.lanes
        seeds, engines = [], []
        for i, problem in enumerate(problems):
            mine = problem.config.trials + (padded - self.trials if i == len(problems) - 1 else 0)
            seeds.append(np.asarray(trial_seeds(problem.config.seed, np.arange(mine))))
            engines.append(in_lanes(engine_of(problem), mine))
        self._engine: Engine = _side_by_side(engines)
        self._blocks: list[Block] = []
        for first in range(0, padded, self.lanes):
            trials = first + np.arange(self.lanes)
            engine = _lanes(self._engine, trials)
            state = engine.start(
                jnp.asarray(np.concatenate(seeds, axis=-1)[:, trials]),
                jnp.asarray(trials < self.trials),
            )
            self._blocks.append(Block(trials, engine, state))
        self._home: State = _side_by_side([b.state for b in self._blocks])

    @property
    def turns(self) -> int:
        """The number of turns that are played before their records are read."""
        return max(1, min(MOST_TURNS, LANE_TURNS // self.lanes))

    @property
    def running(self) -> bool:
        """Whether any trial still collects reports."""
        return any(bool(np.any(block.state.running)) for block in self._blocks)

    @property
    def collecting(self) -> np.ndarray:
        """Which trials still collect reports, (trials,)."""
        flags = np.zeros(self._home.running.shape, bool)
        for block in self._blocks:
            flags[block.trials] = np.asarray(block.state.running)
        return flags[: self.trials]

    def advance(self, crew: Crew | None = None) -> Iterator[Arrivals]:
        """Plays on for a while in every block, and yields the reports that arrived."""
        for _, happened in advance([self], crew):
            yield happened

    def advance_counting(self) -> tuple[int, int]:
        """Plays on as `advance` does; returns how many environment steps and submissions arrived.

        The records themselves are not copied to the host.
        """
        counts = [counted for _, _, counted in _play_on([self], lambda r: jax.device_get(count(r)))]
        return sum(int(steps) for steps, _ in counts), sum(
            int(submissions) for _, submissions in counts
        )

    def stop(self, trials: Sequence[int]) -> None:
        """Stops these trials: they collect no more reports."""
        stopped = np.isin(np.arange(self._home.running.shape[0]), trials)
        self._blocks = [
            b._replace(
                state=b.state._replace(running=b.state.running & ~jnp.asarray(stopped[b.trials]))
            )
            for b in self._blocks
        ]

    def aggregator_field(self, name: str) -> np.ndarray:
        """Returns a field of every trial's `AggregatorState`; the first axis is the trial.

        The field is `theta`, `average`, `received`, `version`, …
        """
        self._bring_home()
        by_trial: np.ndarray = np.moveaxis(getattr(self._home.aggregator, name), -1, 0)[
            : self.trials
        ].copy()
        return by_trial

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the whole state as named arrays, for a checkpoint."""
        self._bring_home()
        return {
            _name(path): leaf.copy()
            for path, leaf in jax.tree_util.tree_leaves_with_path(self._home)
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores exactly the state that `arrays` returned."""
        mine = self.arrays()
        if {k: (v.shape, v.dtype) for k, v in arrays.items()} != {
            k: (v.shape, v.dtype) for k, v in mine.items()
        }:
            raise PgcError(
                "the checkpoint is of another configuration or version of pgc; start a new run"
            )
        self._home = jax.tree_util.tree_map_with_path(
            lambda path, _: arrays[_name(path)].copy(), self._home
        )
        self._pack()

    def _repack(self) -> None:
        left = sum(int(np.sum(block.state.running)) for block in self._blocks)
        if -(-left // self.lanes) < len(self._blocks):
            self._bring_home()
            self._pack()

    def _bring_home(self) -> None:
        """Copies the state of every block to `_home`, which has one lane for each trial."""
        for trials, _, state in self._blocks:
            for home, leaf in zip(jax.tree.leaves(self._home), jax.tree.leaves(state), strict=True):
                home[..., trials] = np.asarray(leaf)

    def _pack(self) -> None:
        """Packs the trials that still run into the fewest blocks, filled up with idle lanes."""
        running = np.flatnonzero(self._home.running)
        idle = np.flatnonzero(~self._home.running)
        self._blocks = []
        for first in range(0, len(running), self.lanes):
            some = running[first : first + self.lanes]
            trials = np.concatenate([some, idle[: self.lanes - len(some)]])
            self._blocks.append(
                Block(trials, _lanes(self._engine, trials), _lanes(self._home, trials))
            )


def advance(
    simulations: Sequence[CompiledSimulation], crew: Crew | None = None
) -> Iterator[tuple[int, Arrivals]]:
    """Plays on for a while in every block of several simulations; yields what arrived, with the
    index of the simulation.

    If there is a crew, it plays the blocks: each block is sent as plain arrays and comes back, so
    nothing is lost with a worker, and every trial is the same as in one process.
    """
    played = (
        _play_on(simulations, lambda r: arrived(jax.device_get(r)))
        if crew is None
        else _have_played(simulations, crew)
    )
    for which, trials, (lane, *columns) in played:
        yield which, Arrivals(trials[lane].astype(np.int32), *columns)


def _have_played(
    simulations: Sequence[CompiledSimulation], crew: Crew
) -> Iterator[tuple[int, np.ndarray, Any]]:
    """Has a crew advance every block; yields simulation, trials and what arrived, by block."""
    jobs = {}
    for i, s in enumerate(simulations):
        for j, block in enumerate(s._blocks):
            turns = s.turns if s.stopped_by_caller else TURNS_AWAY * s.turns
            arguments = (s.config_text, leaves(block.engine), leaves(block.state), turns)
            jobs[crew.submit(Job("advance", arguments))] = i, j
    while jobs:
        for ticket, (state, happened) in crew.results(jobs.keys()):
            i, j = jobs.pop(ticket)
            block = simulations[i]._blocks[j]
            simulations[i]._blocks[j] = block._replace(
                state=jax.tree.unflatten(jax.tree.structure(block.state), state)
            )
            yield i, block.trials, happened
    for simulation in simulations:
        simulation._repack()


def _play_on(
    simulations: Sequence[CompiledSimulation], take: Callable[[Record], Any]
) -> Iterator[tuple[int, np.ndarray, Any]]:
    """Advances every block, with one thread per core, and applies `take` to its records.

    Yields simulation, trials and what was taken, block by block, so that the caller can work on one
    block while others still play.
    """

    def one(job: tuple[int, int]) -> tuple[int, np.ndarray, Any]:
        simulation = simulations[job[0]]
        block = simulation._blocks[job[1]]
        state, records = block.engine.advance(block.state, simulation.turns)
        simulation._blocks[job[1]] = block._replace(state=state)
        return job[0], block.trials, take(records)

    yield from _threads().map(
        one, [(i, j) for i, s in enumerate(simulations) for j in range(len(s._blocks))]
    )
    for simulation in simulations:
        simulation._repack()


def on_every_core(work: Callable[[Any], Any], jobs: Iterable[Any]) -> list[Any]:
    """Returns `work(job)` for every job, done with one thread per core."""
    return list(_threads().map(work, jobs))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() if jax.default_backend() == "cpu" else 1)


def _lanes(tree: Any, lanes: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[..., lanes]), tree)


def _side_by_side(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=-1), *trees)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path)
