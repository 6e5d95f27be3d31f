"""Many cells at once: each is a config with its trials; those that share a compiled program run
side by side.

All cells advance together, so every core is busy until the last blocks, and a sweep stopped at any
time continues bit for bit. Outcomes do not depend on which cells are in a sweep (on a CPU): trial i
of a config is the same alone or beside others.
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
from pgc.engines import simulation
from pgc.engines.backend import Backend, plays_on_host, program_of, scores_of, trials_of
from pgc.engines.crew import Crew
from pgc.engines.trials import Happened, Trials
from pgc.errors import PgcError
from pgc.runs import metrics
from pgc.runs.collect import collect
from pgc.runs.folder import Folder
from pgc.runs.machine import machine
from pgc.runs.progress import Progress
from pgc.runs.run import fingerprint

POINTS = 300
"""Points along a learning curve."""
CHECKPOINT, OUTCOMES = "checkpoint.safetensors", "outcomes.safetensors"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A config under a name, and the problem that is built from it, once."""

    name: str
    config: TrainConfig
    whole: int | None = None
    """The first so many trials run to the end, and give the curves and the final scores; the others
    stop once they have succeeded, which their first success time does not notice. None: all of
    them."""

    @cached_property
    def problem(self) -> Problem:
        """What the config describes."""
        return build(self.config)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The numbers that are kept of a cell."""

    fst: np.ndarray  # (trials,), ∞ where there was no success
    curve: np.ndarray  # (whole, points): μ_n, at `n`
    n: np.ndarray  # (points,)
    final: np.ndarray  # (whole,): greedy score of the last θ, mean over every ψ
    averaged: np.ndarray  # (whole,): of the averaged θ
    steps: np.ndarray  # (trials,): environment steps played
    received: np.ndarray  # (trials,): submissions


class Batch:
    """The cells that share one compiled program."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells, self.problems = list(cells), [cell.problem for cell in cells]
        self.trials = trials_of(*self.problems)
        trials = [cell.config.trials for cell in cells]
        self.first = np.cumsum([0, *trials])
        self.most = np.repeat([cell.config.submissions for cell in cells], trials)
        self.stops = np.concatenate([np.arange(c.config.trials) >= _whole(c) for c in cells])
        # On the host a round is a matter of time, and where a trial would stop one of chance.
        assert not (plays_on_host(self.problems[0]) and self.stops.any())
        self.trials.watched = bool(self.stops.any())
        self.tracker = metrics.SuccessTracker(
            sum(trials), self.problems[0].training.world.score_threshold
        )
        self.samplers = [
            metrics.CurveSampler(_whole(c), c.config.submissions, POINTS) for c in cells
        ]
        self.steps = np.zeros(sum(trials), np.int64)
        self.received = np.zeros(sum(trials), np.int64)
        self.rounds = np.zeros(sum(trials), np.int64)
        self.block_rounds = np.zeros(1, np.int64)
        self.done = np.zeros(sum(trials), bool)

    def note(self, happened: Happened) -> None:
        """Take what arrived in one block."""
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

    def settle(self) -> None:
        """Stops trials whose outcome is already known.

        Call after all blocks of a round were recorded.
        """
        self.rounds += ~self.done
        self.block_rounds += -(-np.sum(~self.done) // self.trials.lanes)
        succeeded = self.stops & np.isfinite(self.tracker.fst) & ~self.done
        if succeeded.any():
            self.trials.stop(np.flatnonzero(succeeded).tolist())
        self.done = ~self.trials.collecting

    def work(self) -> tuple[float, float]:
        """How much is done and how much there is left, in rounds of a block: long episodes are more
        work per submission.
        """
        left = np.where(
            self.done, 0.0, self.rounds * (self.most / np.maximum(self.received, 1) - 1)
        )
        slowest_of_each_block = np.sort(left)[::-1][:: self.trials.lanes]
        return float(self.block_rounds[0]), float(slowest_of_each_block.sum())

    def outcomes(self, crew: Crew | None) -> dict[str, Outcome]:
        """Returns the outcomes, by the names of the cells."""
        scores = self._greedy_scores(crew)
        return {
            cell.name: Outcome(
                fst=self.tracker.fst[first:last].copy(),
                curve=self.samplers[i].curve,
                n=self.samplers[i].n,
                final=scores["theta"][first : first + _whole(cell)],
                averaged=scores["average"][first : first + _whole(cell)],
                steps=self.steps[first:last],
                received=self.received[first:last],
            )
            for i, (cell, first, last) in enumerate(
                zip(self.cells, self.first, self.first[1:], strict=False)
            )
        }

    def _greedy_scores(self, crew: Crew | None) -> dict[str, np.ndarray]:
        """Mean over every ψ of the final and of the averaged θ, for the trials that ran to the end;
        NaN for the others.
        """
        training = self.problems[0].training  # world, policy and population are part of the program
        made = {}
        for name in ("theta", "average"):
            thetas, scores = self.trials.collected(name), np.full(len(self.stops), np.nan)
            for setting in {(cell.config.eval_episodes, cell.config.seed) for cell in self.cells}:
                like = [
                    (cell.config.eval_episodes, cell.config.seed) == setting for cell in self.cells
                ]
                which = np.repeat(like, np.diff(self.first)) & ~self.stops
                psis, (episodes, seed) = training.population.grid(), setting
                found = scores_of(
                    self.problems[0], thetas[which], psis, episodes=episodes, seed=seed, crew=crew
                )
                scores[which] = found.mean(axis=1)
            made[name] = scores
        return made

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The whole state: arrays, and the rest as plain values."""
        arrays = {f"simulation{name}": leaf for name, leaf in self.trials.arrays().items()}
        for i, sampler in enumerate(self.samplers):
            arrays |= {f"sums{i}": sampler.sums, f"counts{i}": sampler.counts}
        return arrays | {name: getattr(self, name) for name in COUNTED}, self.tracker.save()

    def load(self, arrays: dict[str, np.ndarray], tracked: dict[str, Any]) -> None:
        """Put back what `save` gave."""
        self.trials.restore(
            {
                k.removeprefix("simulation"): v
                for k, v in arrays.items()
                if k.startswith("simulation")
            }
        )
        for i, sampler in enumerate(self.samplers):
            sampler.sums[:], sampler.counts[:] = arrays[f"sums{i}"], arrays[f"counts{i}"]
        for name in COUNTED:
            getattr(self, name)[:] = arrays[name]
        self.tracker.load(tracked)


COUNTED = ("steps", "received", "rounds", "block_rounds", "done")


def run(
    cells: Sequence[Cell],
    folder: Folder,
    *,
    progress: Progress | None = None,
    stop_asked: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = 60.0,
    backend: Backend | None = None,
) -> dict[str, Outcome] | None:
    """Run every cell, or what a checkpoint in the folder leaves to do. None if asked to stop: a
    checkpoint is there then.

    `backend` says who plays; by default the compiled engine in this process.
    """
    if (folder.path / OUTCOMES).exists():
        (folder.path / CHECKPOINT).unlink(missing_ok=True)
        return read_outcomes(folder, cells)
    if progress:
        progress(0, 1, "compiling")
    work = Sweep(cells, _batches(cells), folder, progress)
    problems = [problem for batch in work.batches for problem in batch.problems]
    with (backend or Backend()).crew(*problems) as crew:
        work.restore()
        if not collect(
            work,
            crew,
            stop_asked=stop_asked,
            checkpoint_seconds=checkpoint_seconds,
            resume=f" in {folder.path}: continue it with --resume",
        ):
            return None
        return work.finish(crew)


class Sweep:
    """All batches of a sweep, and the folder that keeps them."""

    def __init__(
        self,
        cells: Sequence[Cell],
        batches: Sequence[Batch],
        folder: Folder,
        progress: Progress | None,
    ) -> None:
        self.cells, self.batches, self.folder, self.progress = cells, batches, folder, progress
        self.began = time.monotonic()
        self._round: list[Batch] = []

    def running(self) -> list[Trials]:
        """The trials of every batch of which some still collect."""
        self._round = [batch for batch in self.batches if batch.trials.running]
        return [batch.trials for batch in self._round]

    def note(self, trials: Trials, happened: Happened) -> None:
        """Hand it to the batch whose trials they are."""
        next(batch for batch in self._round if batch.trials is trials).note(happened)

    def settle(self) -> None:
        """Stop trials whose outcome is known, and tell how far it is."""
        for batch in self._round:
            batch.settle()
        if self.progress:
            _tell(self.batches, self.progress)

    def overdue(self) -> bool:
        """Never: a sweep keeps sums, not rows."""
        return False

    def checkpoint(self) -> None:
        """Write every batch into one file."""
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
        """Put every batch back as the last checkpoint has it, if there is one."""
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
        """Score the policies, and write the outcomes in place of the checkpoint."""
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
    """The outcomes of a sweep that has ended."""
    arrays, notes = folder.read_arrays(OUTCOMES)
    _demand_same(notes, cells, folder)
    keys = Outcome.__dataclass_fields__
    return {
        cell.name: Outcome(**{key: arrays[f"{cell.name}:{key}"] for key in keys}) for cell in cells
    }


def facts(folder: Folder) -> dict[str, Any]:
    """How long the sweep in a folder took, all its sittings together, and on what it ended."""
    made: dict[str, Any] = json.loads(folder.read_arrays(OUTCOMES)[1]["facts"])
    return made


def _whole(cell: Cell) -> int:
    return cell.config.trials if cell.whole is None else min(cell.whole, cell.config.trials)


def _batches(cells: Sequence[Cell]) -> list[Batch]:
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(program_of(cell.problem), []).append(cell)
    return simulation.on_every_core(Batch, groups.values())


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
    return json.dumps([[cell.name, cell.whole, fingerprint(cell.config)] for cell in cells])
