"""The simple exact loop: the paper's Algorithm 1, one trial, in plain Python.

No command runs it: it is the oracle of the tests, and the place to read the algorithm. Commands run
`compiled.py`, or `host.py` for worlds on the host.

Asynchrony is simulated in virtual time: one environment step is one tick. A worker copies θ when it
starts, plays, and submits when it ends. The worker that ends earliest submits first; ties go to the
lowest worker index. Gradients are as stale as they would be on a real machine, and the run is
repeatable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config.problem import Problem
from pgc.deliver.initial import initial_theta
from pgc.engines.agent import Agent
from pgc.numerics.randomness import address
from pgc.update.aggregator import AggregatorState
from pgc.wire.values import Submission


@dataclass
class Worker:
    """One of the W workers, each of which plays one agent after another."""

    index: int
    started: int = 0
    agent: Agent | None = None
    ends: int = 0
    version: Any = None
    submission: Submission | None = None


@dataclass
class Trace:
    """What happened, submission by submission, in the order of arrival."""

    scores: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    bits: list[bool] = field(default_factory=list)
    state: AggregatorState | None = None


def run(problem: Problem, *, seed: jax.Array) -> Trace:
    """Runs one trial, whose random words are addressed by `seed`, and returns what happened."""
    deliverer, training, randomiser, aggregator = (
        problem.deliverer,
        problem.training,
        problem.randomiser,
        problem.aggregator,
    )
    workers = problem.config.workers
    accept, prepare = jax.jit(aggregator.accept), jax.jit(deliverer.prepare)
    state = problem.start(initial_theta(seed, training.policy, problem.initial))
    everyone = [Worker(index) for index in range(workers)]
    trace = Trace()

    def start(worker: Worker, now: int) -> None:
        # 1 deliver
        worker.version = state.version
        delivery = deliverer.deliver(state)
        alpha = jnp.asarray(deliverer.alpha(state.received))
        # 2 local training, 3 randomise
        at = address(seed, worker.index, worker.started, workers, randomiser.submissions_per_agent)
        worker.started += 1
        if worker.agent is None or worker.agent.spent:
            worker.agent = Agent(training, randomiser, at)
        worker.submission = worker.agent.answer(delivery, alpha, at)
        worker.ends = now + int(worker.submission.ticks)

    for worker in everyone:
        start(worker, 0)
    while int(state.received) < problem.config.submissions:
        worker = min(everyone, key=lambda w: (w.ends, w.index))
        sent = worker.submission
        assert sent is not None
        trace.scores.append(float(sent.score))
        trace.steps.append(int(sent.ticks))
        trace.staleness.append(int(state.version - worker.version))
        trace.ticks.append(worker.ends)
        trace.bits.append(bool(sent.bit))
        updated = accept(state, sent.report, worker.version)  # 4 update
        state = prepare(state, updated)  # and 1 again: what a new θ is delivered with
        start(worker, worker.ends)
    trace.state = jax.tree.map(np.asarray, state)
    return trace


__all__ = ["Trace", "run"]
