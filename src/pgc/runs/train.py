"""`pgc train`: takes the four steps until N submissions have arrived, and leaves a run folder.

A run that was killed can be continued.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgc.config import TrainConfig, configure
from pgc.config.problem import Problem, build
from pgc.engines.backend import Backend, scores_of, simulation_of
from pgc.engines.crew import Crew
from pgc.engines.simulation import Arrivals, Simulation
from pgc.errors import Interrupted, PgcError, code_in
from pgc.local_training.learnt import policy_notes
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.worlds.registry import BUILT_IN
from pgc.privacy.statement import epsilon_in_words, privacy_statement
from pgc.runs import figures, metrics
from pgc.runs.callbacks import Callback, SoFar
from pgc.runs.collect import collect
from pgc.runs.episode import outside_the_box, too_wide, usual_observations
from pgc.runs.film import check_can_film, learning_film
from pgc.runs.folder import new_path
from pgc.runs.in_progress import RunInProgress
from pgc.runs.programs import keep_programs
from pgc.runs.progress import (
    CHECKPOINT_SECONDS,
    Progress,
    Show,
    shown,
    sparkline,
    stop_signals,
)
from pgc.runs.run import Run

CHECKPOINT_ROWS = 2_000_000
SPARKS = 10
"""Blocks in the line of scores, so that a terminal of 80 columns has room for the rest."""


def train(
    config: TrainConfig | None = None,
    *,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    progress: Show = "auto",
    callbacks: Sequence[Callback] = (),
    gif: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    engine: str = "local",
    address: str | None = None,
    processes: int | None = None,
    run_code: bool = False,
    **settings: Any,
) -> Run:
    """Trains a policy, and returns the finished run.

    Give settings by name, or a `config`, or a run to `resume`. Settings are the fields of
    `pgc.TrainConfig`, and the flags of `pgc train --help-all`.
    `engine`, `address` and `processes` say where episodes are played: on this machine, or on a Ray
    cluster. They do not change the result. `run_code` lets a run that is resumed run the code that
    its config names; settings that are given here name your own. `progress` is a function that is
    told how far it came, or None; by default a bar is shown on a terminal and in a notebook.
    `callbacks` see how it goes (`callbacks.py`: TensorBoard, MLflow, WandB, or your own). With
    `gif` the run's folder also has learning.gif: an episode before, and one after.

        run = pgc.train(mechanism="prs", epsilon=1.0, trials=20)
        run.summary["final_success_ratio"]
    """
    backend = Backend(engine, address, processes)
    keep_programs()
    if resume is not None:
        if config is not None or settings or out is not None:
            raise PgcError("resume takes every setting from the run itself; give nothing else")
        run = RunInProgress.open(resume, run_code=run_code)
        problem = run.problem()
        if run.complete:
            return run.finished()
        backend.check(problem)
        return _finish(
            run, problem, backend, progress, callbacks, gif, checkpoint_seconds, fresh=False
        )
    if config is not None and settings:
        raise PgcError("give either a config or settings by name, not both")
    problem = build(config if config is not None else configure(**settings))
    backend.check(problem)
    if gif:
        check_can_film(problem)
    default = new_path(f"{problem.randomiser.mechanism.name}-eps{problem.config.epsilon:g}")
    run = RunInProgress.create(Path(out) if out is not None else default, problem.config)
    return _finish(run, problem, backend, progress, callbacks, gif, checkpoint_seconds)


def _finish(
    run: RunInProgress,
    problem: Problem,
    backend: Backend,
    progress: Show,
    callbacks: Sequence[Callback],
    gif: bool,
    checkpoint_seconds: float,
    *,
    fresh: bool = True,
) -> Run:
    with (
        run.folder.locked(),
        stop_signals() as stop_asked,
        backend.crew(problem) as crew,
        shown(progress) as report,
    ):
        for callback in callbacks:
            callback.begin(run)
        try:
            session = Session(run, problem, crew, report, stop_asked, callbacks)
            session.finish(checkpoint_seconds)
        except Exception:
            if fresh:
                run.abandon()
            raise
        if gif:
            session.say("drawing")
            run.folder.write("learning.gif", learning_film(problem, run.policies()["averaged"][0]))
        for callback in callbacks:
            callback.end(run)
    return run.finished()


class Session:
    """One process's work on a run, from its start or last checkpoint until it ends or stops."""

    def __init__(
        self,
        run: RunInProgress,
        problem: Problem,
        crew: Crew | None,
        progress: Progress | None,
        stop_asked: Callable[[], bool],
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.run, self.problem, self.crew = run, problem, crew
        self.progress, self.stop_asked, self.callbacks = progress, stop_asked, callbacks
        self.say("compiling")
        config = problem.config
        self.simulation = simulation_of(problem)
        self.tracker = metrics.SuccessTracker(config.trials, problem.training.world.score_threshold)
        self.received = np.zeros(config.trials, np.int64)
        self.ones = 0
        self.env_steps, self.parts, self.seconds = 0, 0, 0.0
        self.unwritten: list[Arrivals] = []
        self.curve: list[float] = []
        """μ after each pass, for the eye."""
        if run.has_begun:
            self._restore()
        else:
            run.drop_parts_from(0)
        self.began = time.monotonic() - self.seconds

    def finish(self, checkpoint_seconds: float) -> None:
        """Collects until every trial is done, and writes the results."""
        how = f"pgc train --resume {self.run.path}"
        if code_in(vars(self.run.config)):
            how += " --run-code"
        if not collect(
            self,
            self.crew,
            stop_asked=self.stop_asked,
            checkpoint_seconds=checkpoint_seconds,
            how_to_go_on=f": {how}",
        ):
            raise Interrupted(f"stopped; continue with: {how}")
        self.checkpoint()
        self._write_results()

    def running(self) -> list[Simulation]:
        """Returns the simulation, as long as any of its trials still collects."""
        return [self.simulation] if self.simulation.running else []

    def note(self, simulation: Simulation, happened: Arrivals) -> None:
        """Keeps a row for each submission that arrived, and updates the counts."""
        self.unwritten.append(happened)
        self.received += np.bincount(happened.trial, minlength=len(self.received))
        self.env_steps += int(happened.steps.sum(dtype=np.int64))
        self.ones += int(happened.bit.sum())
        self.tracker.add_all(happened.trial, happened.score)

    def end_pass(self) -> None:
        """Reports progress; there is nothing to stop, because trials stop by themselves."""
        self.curve.append(self.tracker.recent())
        in_all, done = self.problem.config.submissions * len(self.received), self.received.sum()
        succeeded = float(np.isfinite(self.tracker.fst).mean())
        for callback in self.callbacks:
            callback.arrived(SoFar(int(done), in_all, self.curve[-1], succeeded))
        if not self.progress:
            return
        known = [mu for mu in self.curve if math.isfinite(mu)]
        if not known:
            self.say("training: the first agents play")
            return
        top = self.problem.training.world.score_threshold
        high = top if math.isfinite(top) else max(known)
        line = sparkline(known, min(0.0, *known), high, SPARKS)
        of = self.problem.config.submissions
        trials = f" in {len(self.received)} trials" if len(self.received) > 1 else ""
        each = int(done) // len(self.received)
        words = f"{each:,} of {of:,} submissions{trials}  μ = {known[-1]:.1f} {line}"
        self.progress(int(done), in_all, f"{words}  {epsilon_in_words(self.problem)}")

    def say(self, phase: str) -> None:
        """Reports a phase of which nobody knows how long it takes."""
        if self.progress:
            self.progress(0, 0, phase)

    def overdue(self) -> bool:
        """Returns whether more rows wait to be written than memory should hold."""
        return sum(len(h.n) for h in self.unwritten) > CHECKPOINT_ROWS

    def checkpoint(self) -> None:
        """Writes the new rows first, and then the state that counts them.

        A kill in between leaves a part that no state counts, and resuming the run drops it.
        """
        if self.unwritten:
            self.run.write_part(self.parts, self.unwritten)
            self.parts += 1
            self.unwritten = []
        self.run.write_checkpoint(
            self.simulation.arrays(),
            {
                "parts": self.parts,
                "received": self.received.tolist(),
                "env_steps": self.env_steps,
                "ones": self.ones,
                "seconds": time.monotonic() - self.began,
                "tracker": self.tracker.save(),
            },
        )

    def _restore(self) -> None:
        arrays, counts = self.run.read_checkpoint()
        self.simulation.restore(arrays)
        self.parts, self.env_steps, self.ones = (
            counts["parts"],
            counts["env_steps"],
            counts["ones"],
        )
        self.received = np.array(counts["received"], np.int64)
        self.seconds = counts["seconds"]
        self.tracker.load(counts["tracker"])
        self.run.drop_parts_from(self.parts)

    def _write_results(self) -> None:
        problem, config = self.problem, self.problem.config
        theta, averaged = (
            self.simulation.aggregator_field("theta"),
            self.simulation.aggregator_field("average"),
        )
        known = isinstance(problem.training.policy, ActorCritic)
        notes = policy_notes(problem.training.recipe if known else None)
        self.run.folder.write_arrays(
            "policy.safetensors", {"theta": theta, "averaged": averaged}, notes
        )
        self.say("evaluating the last and the averaged policy")
        psis = problem.training.population.grid()
        final, average = (
            scores_of(
                problem, t, psis, episodes=config.eval_episodes, seed=config.seed, crew=self.crew
            ).mean(axis=1)
            for t in (theta, averaged)
        )
        self.run.folder.write_json("privacy.json", privacy_statement(problem))
        self.run.folder.write("curve.png", figures.learning_curve(self.run))
        seconds = time.monotonic() - self.began
        self.run.folder.write_json("summary.json", self._summary(final, average, seconds))
        self.run.drop_checkpoint()

    def _warnings(self, average: np.ndarray) -> list[str]:
        """Says what looks wrong, and what to try."""
        config, found = self.problem.config, []
        theta = self.simulation.aggregator_field("theta")
        if broken := int(np.sum(~np.isfinite(theta).all(axis=1))):
            found.append(
                f"θ is not finite in {broken} of {len(theta)} trials; try a smaller --learning-rate"
            )
        threshold = self.problem.training.world.score_threshold
        if config.submissions < metrics.WINDOW:
            found.append(
                f"{config.submissions} submissions are too few to tell: a success is an average of "
                f"{metrics.WINDOW} scores"
            )
        elif math.isfinite(threshold) and not np.isfinite(self.tracker.fst).any():
            found.append(
                f"no trial succeeded: ten scores in a row never averaged Θ = {threshold:g}. "
                "Compare with --epsilon inf: if that fails too, noise is not the reason; look at "
                "--bounds, --local-episodes and --submissions"
            )
        world, known = self.problem.training.world, self.problem.training.policy
        looked_at = isinstance(known, ActorCritic) and world.observation_bounds and not broken
        if config.world not in BUILT_IN and looked_at and average.mean() < threshold:
            seen = usual_observations(self.problem, self.simulation.aggregator_field("average")[0])
            for i, (low, high) in too_wide(world.observation_bounds, seen):
                found.append(
                    f"the public box is wide for number {i}: in a greedy episode it only went from "
                    f"{low:.3g} to {high:.3g}. A box that is ten times too wide makes a number ten "
                    f"times harder to learn; give --bounds {i}=low:high"
                )
            for i, share in outside_the_box(world.observation_bounds, seen):
                low, high = world.observation_bounds[i]
                found.append(
                    f"observations leave the public box by which they are scaled: number {i} was "
                    f"far outside {low:.3g} … {high:.3g} in {share:.0%} of the steps of a greedy "
                    "episode. If a good policy would see such values, give --bounds "
                    f"{i}=low:high"
                )
        alike = len(self.problem.training.population.grid()) == 1
        if config.world not in BUILT_IN and alike and world.default_psi and not config.public:
            found.append(
                "all homes were alike; --population FIELD=low:high says how they differ (FIELD one "
                f"of {', '.join(world.default_psi._fields)})"
            )
        assert config.buffer_size is not None
        if self.received.max() < config.buffer_size:
            found.append(
                f"θ was never updated: {config.submissions} reports do not fill a buffer of "
                f"{config.buffer_size} (--buffer-size)"
            )
        return found

    def _summary(self, final: np.ndarray, average: np.ndarray, seconds: float) -> dict[str, Any]:
        problem, config = self.problem, self.problem.config
        threshold = problem.training.world.score_threshold
        fst = self.tracker.fst
        summary: dict[str, Any] = {
            "world": config.world,
            "mechanism": problem.randomiser.mechanism.title,
            "control": config.control,
            "epsilon": problem.epsilon,
            "epsilon_gradient": problem.epsilon_gradient,
            "epsilon_score": problem.epsilon_score,
            "nominal_epsilon": config.epsilon,
            "submissions": config.submissions,
            "trials": config.trials,
            "seed": config.seed,
            "threshold": threshold,
            "fst_median": float(metrics.median(fst)),
            "success_ratio": float(metrics.success_ratio(fst, config.submissions)[0]),
            "auc": metrics.auc(fst, config.submissions),
            "final_score_mean": float(final.mean()),
            "final_success_ratio": float(np.mean(final >= threshold)),
            "averaged_score_mean": float(average.mean()),
            "averaged_success_ratio": float(np.mean(average >= threshold)),
            "received": int(self.received.sum()),
            "stopped_trials": int(np.sum(self.received < config.submissions)),
            "unused_reports": int(self.simulation.aggregator_field("buffer_count").sum()),
            "discarded_reports": int(self.simulation.aggregator_field("discarded").sum()),
            "success_rate_estimate": None,
            "env_steps": self.env_steps,
            "seconds": round(seconds, 3),
            "warnings": self._warnings(average),
        }
        if score_bit := problem.randomiser.score_bit:
            summary["success_rate_estimate"] = float(
                score_bit.success_rate(self.ones, self.received.sum())
            )
        return {**summary, "fst": fst.tolist()}
