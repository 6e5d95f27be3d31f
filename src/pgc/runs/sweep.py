"""Runs many cells at once; those that share a compiled program run side by side.

A cell is a config with its trials. All cells advance together, so every core is busy until the last
blocks. A sweep can be stopped at any time and continued to bit-identical outcomes. On a CPU,
outcomes do not depend on which other cells are in the sweep: trial i of a config is the same alone
or beside others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgc import __version__
from pgc.config import TrainConfig
from pgc.config.problem import Problem, build
from pgc.engines import compiled_simulation
from pgc.engines.backend import Backend, batch_key, plays_on_host, scores_of, simulation_of
from pgc.engines.crew import Crew
from pgc.engines.simulation import Arrivals, Simulation
from pgc.errors import PgcError
from pgc.local_training.worlds.population import Population
from pgc.runs import metrics
from pgc.runs.collect import collect
from pgc.runs.folder import Folder
from pgc.runs.in_progress import fingerprint
from pgc.runs.machine import machine
from pgc.runs.progress import Progress

POINTS = 300
"""Points along a learning curve."""
CHECKPOINT, OUTCOMES = "checkpoint.safetensors", "outcomes.safetensors"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A config with a name, and the problem that is built from it once."""

    name: str
    config: TrainConfig
    figure_trials: int | None = None
    """How many trials, from the first on, run to the end and give the curves and the final scores;
    None means all of them. The others stop once they have succeeded, which does not change their
    first success time."""
    judged: tuple[str, ...] | None = None
    """The population in whose homes the policies are scored, if it is not the cell's own."""

    @cached_property
    def problem(self) -> Problem:
        """The problem that the config describes."""
        return build(self.config)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of a cell that are kept."""

    fst: np.ndarray  # (trials,), ∞ where there was no success
    curve: np.ndarray  # (figure trials, points): μ_n, at `n`
    n: np.ndarray  # (points,)
    final: np.ndarray  # (figure trials,): greedy score of the last θ, mean over every ψ
    averaged: np.ndarray  # (figure trials,): greedy score of the averaged θ, mean over every ψ
    steps: np.ndarray  # (trials,): environment steps played
    received: np.ndarray  # (trials,): submissions that arrived


class Batch:
    """The cells that share one compiled program."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells, self.problems = list(cells), [cell.problem for cell in cells]
        self.simulation = simulation_of(*self.problems)
        trials = [cell.config.trials for cell in cells]
        self.first = np.cumsum([0, *trials])
        self.most = np.repeat([cell.config.submissions for cell in cells], trials)
        self.stops = np.concatenate(
            [np.arange(c.config.trials) >= _figure_trials(c) for c in cells]
        )
        # On the host, how much is played in one pass depends on timing. If trials were stopped
        # after a pass, their outcomes would depend on timing as well.
        assert not (plays_on_host(self.problems[0]) and self.stops.any())
        self.simulation.stopped_by_caller = bool(self.stops.any())
        self.tracker = metrics.SuccessTracker(
            sum(trials), self.problems[0].training.world.score_threshold
        )
        self.samplers = [
            metrics.CurveSampler(_figure_trials(c), c.config.submissions, POINTS) for c in cells
        ]
        self.steps = np.zeros(sum(trials), np.int64)
        self.received = np.zeros(sum(trials), np.int64)
        self.passes = np.zeros(sum(trials), np.int64)
        self.block_passes = np.zeros(1, np.int64)
        self.done = np.zeros(sum(trials), bool)

    def note(self, happened: Arrivals) -> None:
        """Records the submissions that arrived in one block."""
        self.tracker.add_all(happened.trial, happened.score)
        self.received += np.bincount(happened.trial, minlength=len(self.received))
        self.steps += np.bincount(happened.trial, happened.steps, minlength=len(self.steps)).astype(
            np.int64
        )
        for i, sampler in enumerate(self.samplers):
            mine = slice(
                *np.searchsorted(happened.trial, [self.first[i], self.first[i] + len(sampler.sums)])
            )
            sampler.add(
                happened.trial[mine] - self.first[i], happened.n[mine], happened.score[mine]
            )

    def end_pass(self) -> None:
        """Stops trials whose outcome is already known.

        Call after all blocks of a pass were recorded.
        """
        self.passes += ~self.done
        self.block_passes += -(-np.sum(~self.done) // self.simulation.lanes)
        succeeded = self.stops & np.isfinite(self.tracker.fst) & ~self.done
        if succeeded.any():
            self.simulation.stop(np.flatnonzero(succeeded).tolist())
        self.done = ~self.simulation.collecting

    def work(self) -> tuple[float, float]:
        """Returns how much work is done and how much is left, in passes over a block.

        Submissions would be a poor unit, because those with long episodes take more work.
        """
        left = np.where(
            self.done, 0.0, self.passes * (self.most / np.maximum(self.received, 1) - 1)
        )
        slowest_of_each_block = np.sort(left)[::-1][:: self.simulation.lanes]
        return float(self.block_passes[0]), float(slowest_of_each_block.sum())

    def outcomes(self, crew: Crew | None) -> dict[str, Outcome]:
        """Returns the outcomes, by the names of the cells."""
        scores = self._greedy_scores(crew)
        return {
            cell.name: Outcome(
                fst=self.tracker.fst[first:last].copy(),
                curve=self.samplers[i].curve,
                n=self.samplers[i].n,
                final=scores["theta"][first : first + _figure_trials(cell)],
                averaged=scores["average"][first : first + _figure_trials(cell)],
                steps=self.steps[first:last],
                received=self.received[first:last],
            )
            for i, (cell, first, last) in enumerate(
                zip(self.cells, self.first, self.first[1:], strict=False)
            )
        }

    def _greedy_scores(self, crew: Crew | None) -> dict[str, np.ndarray]:
        """Returns the greedy scores of the final and of the averaged θ, as means over every ψ.

        They are NaN for trials that did not run to the end.
        """
        training = self.problems[0].training  # world, policy and population are part of the program
        judged, population = self.cells[0].judged, training.population
        if judged is not None:
            population = Population.parse(training.world, judged)
        made = {}
        for name in ("theta", "average"):
            thetas, scores = (
                self.simulation.aggregator_field(name),
                np.full(len(self.stops), np.nan),
            )
            for setting in {(cell.config.eval_episodes, cell.config.seed) for cell in self.cells}:
                like = [
                    (cell.config.eval_episodes, cell.config.seed) == setting for cell in self.cells
                ]
                which = np.repeat(like, np.diff(self.first)) & ~self.stops
                psis, (episodes, seed) = population.grid(), setting
                found = scores_of(
                    self.problems[0], thetas[which], psis, episodes=episodes, seed=seed, crew=crew
                )
                scores[which] = found.mean(axis=1)
            made[name] = scores
        return made

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns the whole state: its arrays, and the tracker's state as plain values."""
        arrays = {f"simulation{name}": leaf for name, leaf in self.simulation.arrays().items()}
        for i, sampler in enumerate(self.samplers):
            arrays |= {f"sums{i}": sampler.sums, f"counts{i}": sampler.counts}
        return arrays | {
            name: getattr(self, field) for name, field in COUNTED.items()
        }, self.tracker.save()

    def load(self, arrays: dict[str, np.ndarray], tracked: dict[str, Any]) -> None:
        """Restores a state that `save` returned."""
        self.simulation.restore(
            {
                k.removeprefix("simulation"): v
                for k, v in arrays.items()
                if k.startswith("simulation")
            }
        )
        for i, sampler in enumerate(self.samplers):
            sampler.sums[:], sampler.counts[:] = arrays[f"sums{i}"], arrays[f"counts{i}"]
        for name, field in COUNTED.items():
            getattr(self, field)[:] = arrays[name]
        self.tracker.load(tracked)


COUNTED = {
    "steps": "steps", "received": "received", "rounds": "passes", "block_rounds": "block_passes",
    "done": "done",
}  # fmt: skip
"""The names under which a checkpoint holds what a batch counts, and the attributes."""


def run(
    cells: Sequence[Cell],
    folder: Folder,
    *,
    progress: Progress | None = None,
    stop_asked: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 60.0,
    backend: Backend | None = None,
) -> dict[str, Outcome] | None:
    """Runs every cell, and returns the outcomes by the cells' names; None if asked to stop.

    It continues from the checkpoint in the folder, if there is one, and leaves one when it is asked
    to stop. `backend` says where episodes are played; by default on this machine.
    """
    if (folder.path / OUTCOMES).exists():
        (folder.path / CHECKPOINT).unlink(missing_ok=True)
        return read_outcomes(folder, cells)
    if progress:
        progress(0, 0, "compiling")
    work = Sweep(cells, _batches(cells), folder, progress)
    problems = [problem for batch in work.batches for problem in batch.problems]
    with (backend or Backend()).crew(*problems) as crew:
        work.restore()
        if not collect(
            work,
            crew,
            stop_asked=stop_asked,
            checkpoint_seconds=checkpoint_seconds,
            how_to_go_on=f" in {folder.path}: continue it with --resume",
        ):
            return None
        return work.finish(crew)


class Sweep:
    """The batches of a sweep, and the folder that holds their checkpoint and outcomes."""

    def __init__(
        self,
        cells: Sequence[Cell],
        batches: Sequence[Batch],
        folder: Folder,
        progress: Progress | None,
    ) -> None:
        self.cells, self.batches, self.folder, self.progress = cells, batches, folder, progress
        self.began = time.monotonic()
        self._playing: list[Batch] = []

    def running(self) -> list[Simulation]:
        """Returns the simulation of every batch in which some trial still collects."""
        self._playing = [batch for batch in self.batches if batch.simulation.running]
        return [batch.simulation for batch in self._playing]

    def note(self, simulation: Simulation, happened: Arrivals) -> None:
        """Records what arrived, in the batch that `simulation` belongs to."""
        next(batch for batch in self._playing if batch.simulation is simulation).note(happened)

    def end_pass(self) -> None:
        """Stops trials whose outcome is known, and reports progress."""
        for batch in self._playing:
            batch.end_pass()
        if self.progress:
            _tell(self.batches, self.progress)

    def overdue(self) -> bool:
        """Returns False: a sweep keeps sums and not rows, so its memory does not grow."""
        return False

    def checkpoint(self) -> None:
        """Writes the state of every batch into one file."""
        arrays: dict[str, np.ndarray] = {}
        tracked = []
        for i, batch in enumerate(self.batches):
            some, more = batch.save()
            arrays |= {f"{i}:{name}": array for name, array in some.items()}
            tracked.append(more)
        notes = {
            "cells": _fingerprint(self.cells),
            "seconds": str(time.monotonic() - self.began),
            "tracked": json.dumps(tracked),
        }
        self.folder.write_arrays(CHECKPOINT, arrays, notes)

    def restore(self) -> None:
        """Restores every batch from the last checkpoint, if there is one."""
        if not (self.folder.path / CHECKPOINT).exists():
            return
        arrays, notes = self.folder.read_arrays(CHECKPOINT)
        _demand_same(notes, self.cells, self.folder)
        all_tracked = json.loads(notes["tracked"])
        for i, (batch, tracked) in enumerate(zip(self.batches, all_tracked, strict=True)):
            mine = {k.partition(":")[2]: v for k, v in arrays.items() if k.startswith(f"{i}:")}
            batch.load(mine, tracked)
        self.began = time.monotonic() - float(notes["seconds"])

    def finish(self, crew: Crew | None) -> dict[str, Outcome]:
        """Scores the policies, replaces the checkpoint by the outcomes, and returns them."""
        found = {name: one for batch in self.batches for name, one in batch.outcomes(crew).items()}
        outcomes = {cell.name: found[cell.name] for cell in self.cells}
        arrays = {
            f"{name}:{key}": value
            for name, outcome in outcomes.items()
            for key, value in vars(outcome).items()
        }
        facts = {
            "seconds": round(time.monotonic() - self.began, 1),
            "machine": machine(),
            "version": __version__,
        }
        notes = {"cells": _fingerprint(self.cells), "facts": json.dumps(facts)}
        self.folder.write_arrays(OUTCOMES, arrays, notes)
        (self.folder.path / CHECKPOINT).unlink(missing_ok=True)
        return outcomes


def read_outcomes(folder: Folder, cells: Sequence[Cell]) -> dict[str, Outcome]:
    """Returns the outcomes of a sweep that has ended, by the cells' names."""
    arrays, notes = folder.read_arrays(OUTCOMES)
    _demand_same(notes, cells, folder)
    keys = Outcome.__dataclass_fields__
    return {
        cell.name: Outcome(**{key: arrays[f"{cell.name}:{key}"] for key in keys}) for cell in cells
    }


def facts(folder: Folder) -> dict[str, Any]:
    """Returns how long a folder's sweep took in all, and on which machine and version it ended."""
    made: dict[str, Any] = json.loads(folder.read_arrays(OUTCOMES)[1]["facts"])
    return made


def _figure_trials(cell: Cell) -> int:
    return (
        cell.config.trials
        if cell.figure_trials is None
        else min(cell.figure_trials, cell.config.trials)
    )


def _batches(cells: Sequence[Cell]) -> list[Batch]:
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((batch_key(cell.problem), cell.judged), []).append(cell)
    return compiled_simulation.on_every_core(Batch, groups.values())


def _tell(batches: Sequence[Batch], progress: Progress) -> None:
    done, left = map(sum, zip(*(batch.work() for batch in batches), strict=True))
    trials, ended = (sum(len(b.done) for b in batches), sum(int(b.done.sum()) for b in batches))
    submissions = sum(int(b.received.sum()) for b in batches)
    progress(done, done + left, f"{ended:,} of {trials:,} trials done  {submissions:,} submissions")


def _demand_same(notes: dict[str, str], cells: Sequence[Cell], folder: Folder) -> None:
    if notes.get("cells") != _fingerprint(cells):
        raise PgcError(
            f"{folder.path} holds another experiment than this version of pgc would run; start a "
            "new one"
        )


def _fingerprint(cells: Sequence[Cell]) -> str:
    return json.dumps([[cell.name, cell.figure_trials, fingerprint(cell.config)] for cell in cells])
