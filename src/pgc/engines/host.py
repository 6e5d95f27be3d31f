"""The loop for worlds that play on the host: a crew plays, this process aggregates.

W agents are at work at any time, each with the θ of the moment in which it began. Reports are taken
*in turn*, in the order in which agents began, whoever finishes first: as if each agent submitted in
a fixed slot. So a run does not depend on how many processes or machines played, nor on which of
them was faster or died, and is repeatable to the bit; and all W play at the same time. (The
compiled engine takes reports in the order of virtual time, which would leave most of a crew waiting
for one episode.)
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import to_yaml
from pgc.config.problem import Problem
from pgc.deliver.initial import initial_theta
from pgc.engines.crew import Crew
from pgc.engines.jobs import Job
from pgc.engines.simulation import Arrivals
from pgc.engines.stopping import Window, stopping_rule
from pgc.errors import PgcError
from pgc.numerics.projection import to_theta_space
from pgc.numerics.randomness import agent_number, trial_seed
from pgc.randomise.on_host import decode
from pgc.update.aggregator import AggregatorState
from pgc.wire.values import HostSubmission, Task

ROUND_SECONDS = 0.5
"""How long `advance` plays before it yields what arrived."""
JOB_SECONDS = 0.05
"""How long a job should take. With longer jobs, workers wait for the last one to finish; with
shorter ones, they wait for this process."""
AHEAD = 2
"""How many jobs are under way for each worker: one that it does and one that waits."""


@dataclass
class InFlight:
    """A submission under way, and the version of the θ that its agent was handed."""

    task: Task
    version: int


@dataclass
class Trial:
    """One trial: the aggregator's state, and the agents at work."""

    state: AggregatorState
    offered: tuple[int, np.ndarray, np.ndarray | None]
    """The version, θ and the basis W of the state, copied to the host."""
    flight: deque[InFlight] = field(default_factory=deque)
    answers: dict[int, HostSubmission] = field(default_factory=dict)
    started: int = 0
    """How many submissions were started."""
    ticks: list[int] = field(default_factory=list)
    """Environment steps of each of the W workers so far."""
    window: Window = field(default_factory=lambda: Window(0, 0))
    """What the stopping rule has seen."""
    running: bool = True


class HostSimulation:
    """The trials of one problem in a world on the host, played by a crew.

    It implements `Simulation`.
    """

    lanes = 1
    stopped_by_caller = False

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        config, self.trials = problem.config, problem.config.trials
        self._config_text = to_yaml(config)
        self._accept = jax.jit(partial(_accept, problem))
        self._to_theta_space = jax.jit(to_theta_space)
        self._stopping = stopping_rule(problem)
        self._seconds_each = JOB_SECONDS
        self._tasks: deque[Task] = deque()
        self._jobs: dict[int, tuple[float, list[Task]]] = {}
        self._trials: list[Trial] = []
        start = jax.jit(problem.start)
        for i in range(self.trials):
            theta = initial_theta(
                trial_seed(config.seed, i), problem.training.policy, problem.initial
            )
            state = start(theta)
            self._trials.append(Trial(state, self._delivery(state), ticks=[0] * config.workers))
            self._deliver(i)

    @property
    def running(self) -> bool:
        """Whether any trial still collects reports."""
        return any(trial.running for trial in self._trials)

    @property
    def collecting(self) -> np.ndarray:
        """Which trials still collect reports, (trials,)."""
        return np.array([trial.running for trial in self._trials])

    def stop(self, trials: Sequence[int]) -> None:
        """Stops these trials: they collect no more reports."""
        for i in trials:
            self._trials[i].running = False

    def advance(self, crew: Crew | None = None) -> Iterator[Arrivals]:
        """Has the crew play on for a while, and yields the reports that arrived."""
        assert crew is not None
        rows: list[tuple[Any, ...]] = []
        failed: PgcError | None = None
        until = time.monotonic() + ROUND_SECONDS
        while self.running and time.monotonic() < until:
            self._submit_jobs(crew)
            try:
                finished = crew.results(self._jobs.keys(), ROUND_SECONDS)
            except PgcError as error:
                failed = error
                break
            for ticket, sent in finished:
                began, tasks = self._jobs.pop(ticket)
                self._seconds_each += 0.2 * (
                    (time.monotonic() - began) / len(tasks) / AHEAD - self._seconds_each
                )
                for task, answer in zip(tasks, sent, strict=True):
                    self._trials[task.trial].answers[task.submission] = answer
                for i in sorted({task.trial for task in tasks}):
                    rows += self._take_reports(i)
        rows.sort(key=lambda row: (row[0], row[1]))
        kinds = (np.int32, np.int32, np.float32, np.int32, np.int32, np.int32, bool)
        columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
        yield Arrivals(
            *(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True))
        )
        if failed is not None:  # raised last, so that earlier reports count
            raise failed

    def aggregator_field(self, name: str) -> np.ndarray:
        """Returns a field of every trial's `AggregatorState`; the first axis is the trial."""
        return np.stack([np.asarray(getattr(trial.state, name)) for trial in self._trials])

    def _delivery(self, state: AggregatorState) -> tuple[int, np.ndarray, np.ndarray | None]:
        """Returns the version, and what its agents are handed (step 1), copied to the host."""
        theta, basis = self.problem.deliverer.deliver(state)
        return (
            int(state.version),
            np.asarray(theta, float),
            None if basis is None else np.asarray(basis, float),
        )

    def _deliver(self, i: int) -> None:
        """Hands θ to new agents until W are at work or no more are needed (step 1)."""
        trial, config = self._trials[i], self.problem.config
        while (
            trial.running
            and len(trial.flight) < config.workers
            and trial.started < config.submissions
        ):
            worker, index = trial.started % config.workers, trial.started // config.workers
            version, theta, basis = trial.offered
            agent = agent_number(worker, index, config.workers, config.submissions_per_agent)
            received = trial.started - len(trial.flight)
            alpha = self.problem.deliverer.alpha(received)
            task = Task(i, trial.started, agent, theta, basis, alpha)
            trial.flight.append(InFlight(task, version))
            self._tasks.append(task)
            trial.started += 1

    def _submit_jobs(self, crew: Crew) -> None:
        """Submits jobs until `AHEAD` are under way for each worker of the crew."""
        free = AHEAD * crew.size - len(self._jobs)
        while self._tasks and free > 0:
            share = max(
                1,
                min(int(JOB_SECONDS / max(self._seconds_each, 1e-6)), -(-len(self._tasks) // free)),
            )
            some = [self._tasks.popleft() for _ in range(min(share, len(self._tasks)))]
            some = [task for task in some if self._trials[task.trial].running]
            if some:
                self._jobs[crew.submit(Job("play", (self._config_text, some)))] = (
                    time.monotonic(),
                    some,
                )
                free -= 1

    def _take_reports(self, i: int) -> list[tuple[Any, ...]]:
        """Takes step 4 for the reports whose turn it is; each makes room for another agent.

        Returns one row for each of these reports, with the columns of `Arrivals`.
        """
        trial, rows = self._trials[i], []
        while trial.running and trial.flight and trial.flight[0].task.submission in trial.answers:
            oldest = trial.flight.popleft()
            sent, task = trial.answers.pop(oldest.task.submission), oldest.task
            mechanism, seed = self.problem.randomiser.mechanism, self.problem.config.seed
            report = np.asarray(decode(mechanism, sent.code, seed, i, task.submission), np.float32)
            if task.basis is not None:
                report = self._to_theta_space(task.basis.astype(np.float32), report)
            staleness = trial.offered[0] - oldest.version
            trial.state = self._accept(trial.state, report, np.int32(oldest.version))
            if int(trial.state.version) != trial.offered[0]:
                trial.offered = self._delivery(trial.state)
            worker = task.submission % len(trial.ticks)
            trial.ticks[worker] += sent.ticks
            n, tick = task.submission + 1, trial.ticks[worker]
            rows.append((i, n, sent.score, sent.ticks, staleness, tick, sent.bit))
            stop = False
            if self._stopping is not None:
                trial.window, stop = self._stopping.watch(trial.window, sent.bit, True)
            trial.running = n < self.problem.config.submissions and not stop
            self._deliver(i)
        return rows

    # After a restart from a checkpoint, submissions that were under way are played again, with the
    # same θ and the same random numbers.

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the whole state as named arrays, for a checkpoint."""
        made = {}
        for i, trial in enumerate(self._trials):
            for path, leaf in jax.tree_util.tree_leaves_with_path(trial.state):
                made[f"{i}{jax.tree_util.keystr(path)}"] = np.asarray(leaf)
            made[f"{i}:counts"] = np.array(
                [trial.started, *trial.window, trial.running, *trial.ticks], np.int64
            )
            made[f"{i}:flight"] = np.array(
                [[b.task.submission, b.task.agent, b.version] for b in trial.flight], np.int64
            ).reshape(-1, 3)
            made[f"{i}:alpha"] = np.array([b.task.alpha for b in trial.flight], float)
            for one in trial.flight:
                made[f"{i}:theta{one.version}"] = one.task.theta
                if one.task.basis is not None:
                    made[f"{i}:basis{one.version}"] = one.task.basis
        return made

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores the state that `arrays` returned."""
        self._tasks.clear()
        try:
            for i, trial in enumerate(self._trials):
                trial.state = jax.tree_util.tree_map_with_path(
                    lambda path, leaf, i=i: jnp.asarray(
                        arrays[f"{i}{jax.tree_util.keystr(path)}"]
                    ).reshape(leaf.shape),
                    trial.state,
                )
                trial.offered = self._delivery(trial.state)
                started, seen, ones, running, *ticks = arrays[f"{i}:counts"].tolist()
                trial.started, trial.window, trial.running, trial.ticks = (
                    started,
                    Window(seen, ones),
                    bool(running),
                    ticks,
                )
                trial.answers.clear()
                trial.flight = deque(
                    InFlight(
                        Task(
                            i,
                            n,
                            agent,
                            arrays[f"{i}:theta{version}"],
                            arrays.get(f"{i}:basis{version}"),
                            float(alpha),
                        ),
                        version,
                    )
                    for (n, agent, version), alpha in zip(
                        arrays[f"{i}:flight"].tolist(), arrays[f"{i}:alpha"], strict=True
                    )
                )
                self._tasks.extend(b.task for b in trial.flight)
        except KeyError:
            raise PgcError(
                "the checkpoint is of another configuration or version of pgc; start a new run"
            ) from None


def _accept(
    problem: Problem, state: AggregatorState, report: jax.Array, version: jax.Array
) -> AggregatorState:
    """Takes step 4 for one decoded report, and makes the state ready for step 1."""
    return problem.deliverer.prepare(state, problem.aggregator.accept(state, report, version))


def greedy_scores(
    problem: Problem,
    crew: Crew,
    thetas: np.ndarray,
    psis: Sequence[Any],
    *,
    episodes: int,
    seed: int,
) -> np.ndarray:
    """Returns mean scores (policies, ψs) of greedy play on the host, `episodes` each."""
    text = to_yaml(problem.config)
    jobs = [
        Job("scores", (text, theta, tuple(map(float, psi)), episodes, seed))
        for theta in thetas
        for psi in psis
    ]
    return np.array([scores.mean() for scores in crew.do_all(jobs)]).reshape(len(thetas), len(psis))
