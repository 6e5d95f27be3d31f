"""The compiled engine: `reference.py` for many trials at once, compiled, and with a stopping rule.

Its results are repeatable bit for bit.

Each lane is one trial. A worker's episodes are played as soon as it copies θ; the report then waits
until the tick at which play would have ended. So a trial needs only one player: while it plays, the
trial's other W − 1 workers hold finished reports that are not yet due. Lanes do not wait for each
other. When a lane has completed a submission, the trial's earliest pending report arrives; its
worker is handed the new θ and plays on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pgc.config.problem import Problem
from pgc.deliver.delivery import Deliverer
from pgc.deliver.initial import Initial, initial_theta
from pgc.engines.stopping import StoppingRule, Window, stopping_rule
from pgc.local_training import compiled as agents
from pgc.local_training.definition import LocalTraining
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.numerics.randomness import address, trial_seed
from pgc.numerics.tracing import trace_fields
from pgc.numerics.trees import select
from pgc.randomise.simulated import Randomiser, randomise_score, simulate_report, words_for_report
from pgc.update.aggregator import Aggregator, AggregatorState
from pgc.wire.values import Delivery

FEW_WORKERS = 16
"""Up to this many workers, a worker's row is chosen by one comparison for each worker, which is
faster than a look-up. With more workers that would take far too long to compile."""
UPDATE_SHARE = 32
"""Expensive updates are made for 1/32 of the lanes at a time."""


class Pending(NamedTuple):
    """The last report that each of the W workers of each lane has finished, until it arrives."""

    report: jax.Array  # g̃ (d, W, lanes)
    bit: jax.Array  # (W, lanes)
    ends: jax.Array  # finish tick
    version: jax.Array  # the version of the θ that it was computed from
    score: jax.Array
    ticks: jax.Array
    real: jax.Array  # False before the worker's first report


class State(NamedTuple):
    """The whole state of some trials, from which they continue bit for bit."""

    seed: jax.Array  # (2, lanes), the seed of each trial
    aggregator: AggregatorState
    pending: Pending
    started: jax.Array  # (W, lanes) submissions begun by each worker
    worker: jax.Array  # (lanes,) the worker that is playing
    begun: jax.Array  # the tick at which it began
    version: jax.Array  # the version of the θ that it plays
    play: agents.Play
    monitor: Window  # what the stopping rule has seen
    running: jax.Array  # (lanes,)


class Record(NamedTuple):
    """What happened in one turn: the report that arrived in each lane, if one did."""

    arrived: jax.Array
    n: jax.Array  # index of the submission within its trial, starting at 1
    score: jax.Array
    ticks: jax.Array
    staleness: jax.Array
    ends: jax.Array
    bit: jax.Array


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The compiled loop. Its numbers (see `tracing.py`) have one value for each lane."""

    deliverer: Deliverer
    training: LocalTraining
    randomiser: Randomiser
    aggregator: Aggregator
    workers: int
    submissions: int | jax.Array
    initial: Initial
    stopping: StoppingRule | None = None
    ticks_per_turn: int = 16
    """Number of ticks in a turn, after which the engine checks which lanes have finished. It
    affects the speed, and at most the last bits of a sum."""

    def start(self, seeds: jax.Array, running: jax.Array) -> State:
        """Returns the first state: worker 0 of every lane has begun at tick 0.

        The other workers are due to begin at tick 0 as well.
        """
        state: State = self._start(
            _initial_thetas(self.training.policy, self.initial, seeds), seeds, running
        )
        return state

    @jax.jit
    def _start(self, theta: jax.Array, seeds: jax.Array, running: jax.Array) -> State:
        lanes, w = seeds.shape[-1], self.workers
        first = jax.vmap(Aggregator.start, -1, -1)(self.aggregator, theta)
        aggregator = jax.vmap(self.deliverer.with_basis, -1, -1)(first)
        count = jnp.zeros((w, lanes), jnp.int32)
        no = jnp.zeros((w, lanes), bool)
        zero = jnp.zeros((lanes,), jnp.int32)
        pending = Pending(
            jnp.zeros((theta.shape[0], w, lanes)),
            no,
            count,
            count,
            jnp.zeros((w, lanes)),
            count,
            no,
        )
        return State(
            seed=seeds,
            aggregator=aggregator,
            pending=pending,
            started=count.at[0].set(1),
            worker=zero,
            begun=zero,
            version=zero,
            play=self._begin(seeds, zero, zero, zero),
            monitor=Window(zero, zero),
            running=running,
        )

    @partial(jax.jit, static_argnums=2, donate_argnums=1)
    def advance(self, state: State, most: int) -> tuple[State, Record]:
        """Runs up to `most` turns, or fewer if every lane is done; returns state and records.

        Records have a leading axis of `most` turns.
        """
        lanes = state.running.shape[0]
        no, count = jnp.zeros((most, lanes), bool), jnp.zeros((most, lanes), jnp.int32)
        records = Record(no, count, jnp.zeros((most, lanes)), count, count, count, no)

        def turn(carry: tuple[jax.Array, State, Record]) -> tuple[jax.Array, State, Record]:
            i, state, records = carry
            state, record = self._turn(state)
            return (
                i + 1,
                state,
                Record(*(all_.at[i].set(one) for all_, one in zip(records, record, strict=True))),
            )

        def unfinished(carry: tuple[jax.Array, State, Record]) -> jax.Array:
            return (carry[0] < most) & jnp.any(carry[1].running)

        _, state, records = jax.lax.while_loop(
            unfinished, turn, (jnp.zeros((), jnp.int32), state, records)
        )
        return state, records

    def _turn(self, state: State) -> tuple[State, Record]:
        """Takes one turn in every lane: a few ticks of play, and the four steps around them.

        A submission may take many turns; only in its last one does a lane go beyond step 2.
        """
        # Step 1: what each lane's agent was handed. A trial's θ changes only when its one lane
        # completes, so the aggregator still holds the θ with which this lane's agent began.
        delivery = self.deliverer.deliver(state.aggregator)

        # Step 2: every lane plays on.
        play = agents.play(self.training, delivery, state.play, self.ticks_per_turn, state.running)
        play, complete = agents.end_episodes(self.training, delivery.theta, play)
        complete = complete & state.running

        # The end of step 2, and step 3: a lane that completed its submission leaves the report with
        # its worker. (A branch, because XLA would otherwise compute the report anew for each of the
        # W workers it may belong to.)
        report, bit = jax.lax.cond(
            jnp.any(complete), self._reports, self._no_reports, delivery, play
        )
        mine = (jnp.arange(self.workers)[:, None] == state.worker) & complete
        made = Pending(
            report=report[:, None],
            bit=bit,
            ends=state.begun + play.ticks,
            version=state.version,
            score=play.score,
            ticks=play.ticks,
            real=complete,
        )
        pending = Pending(
            *(jnp.where(mine, new, old) for new, old in zip(made, state.pending, strict=True))
        )

        # Step 4: the earliest report of the trial arrives, ties by worker index.
        earliest = jnp.argmin(pending.ends, axis=0)
        is_earliest = jnp.arange(self.workers)[:, None] == earliest
        due = _take(pending, is_earliest)
        arrived = complete & due.real
        taken = jax.vmap(Aggregator.add, -1, -1)(
            self.aggregator, state.aggregator, due.report, due.version
        )
        full = jax.vmap(Aggregator.full, -1)(self.aggregator, taken) & arrived
        updated = self._update(taken, full)
        averaged = jax.vmap(Aggregator.average, -1, -1)(self.aggregator, updated)
        updated = select(arrived, averaged, state.aggregator)
        staleness = state.aggregator.version - due.version
        monitor, stop = state.monitor, jnp.zeros_like(arrived)
        if self.stopping is not None:
            monitor, stop = self.stopping.watch(monitor, due.bit, arrived)

        # Step 1 of the next round: the worker whose report arrived begins with its next agent,
        # which is handed the new θ.
        aggregator = self._prepare(updated, full)
        index = _take_row(state.started, is_earliest)
        next_play = self._begin(state.seed, earliest, index, aggregator.received)
        state = State(
            seed=state.seed,
            aggregator=aggregator,
            pending=pending,
            started=state.started + (is_earliest & complete),
            worker=jnp.where(complete, earliest, state.worker),
            begun=jnp.where(complete, due.ends, state.begun),
            version=jnp.where(complete, aggregator.version, state.version),
            play=select(complete, next_play, play),
            monitor=monitor,
            running=state.running & (aggregator.received < self.submissions) & ~stop,
        )
        return state, Record(
            arrived=arrived,
            n=aggregator.received,
            score=due.score,
            ticks=due.ticks,
            staleness=staleness,
            ends=due.ends,
            bit=due.bit,
        )

    def _reports(self, delivery: Delivery, play: agents.Play) -> tuple[jax.Array, jax.Array]:
        """Ends step 2 and takes step 3.

        Returns the decoded report (d, lanes) and the noisy boolean (lanes,) of every lane.
        """
        coordinates = agents.coordinates(self.training, delivery, play)
        public, secret = words_for_report(self.randomiser, play.at)
        reports = jax.vmap(simulate_report, -1, -1)(
            self.randomiser, delivery.basis, coordinates, public, secret
        )
        return reports, randomise_score(
            self.randomiser, play.score >= self.training.world.score_threshold, play.at
        )

    def _no_reports(self, delivery: Delivery, play: agents.Play) -> tuple[jax.Array, jax.Array]:
        """Returns zeros in place of `_reports` when no lane has completed a submission."""
        return jnp.zeros_like(delivery.theta), jnp.zeros(play.score.shape, bool)

    def _update(self, state: AggregatorState, full: jax.Array) -> AggregatorState:
        """Updates θ in the lanes whose buffer is full (step 4)."""
        if not self.aggregator.updates_are_expensive:
            return select(full, jax.vmap(Aggregator.update, -1, -1)(self.aggregator, state), state)
        return _in_few_lanes(Aggregator.update, full, self.aggregator, state)

    def _prepare(self, state: AggregatorState, full: jax.Array) -> AggregatorState:
        """Makes the basis of θ in the lanes that have a new version (step 1)."""
        if self.deliverer.subspace is None:
            return state
        return _in_few_lanes(
            lambda _, state: self.deliverer.with_basis(state), full, self.aggregator, state
        )

    def _begin(
        self, seed: jax.Array, worker: jax.Array, index: jax.Array, received: jax.Array
    ) -> agents.Play:
        at = address(seed, worker, index, self.workers, self.randomiser.submissions_per_agent)
        return agents.begin(self.training, at, self.deliverer.alpha(received))


trace_fields(Engine, "training", "randomiser", "aggregator", "submissions")


def _in_few_lanes(
    change: Callable[[Aggregator, AggregatorState], AggregatorState],
    which: jax.Array,
    aggregator: Aggregator,
    state: AggregatorState,
) -> AggregatorState:
    """Returns the state with an expensive change made in some lanes, a few of them at a time.

    Few lanes have a new version in any one turn.
    """
    at_once = -(-which.shape[0] // UPDATE_SHARE)
    order = jnp.argsort(~which, stable=True)

    def some(i: jax.Array, state: AggregatorState) -> AggregatorState:
        lanes = jax.lax.dynamic_slice(order, (i * at_once,), (at_once,))
        mine, before = jax.tree.map(lambda leaf: leaf[..., lanes], (aggregator, state))
        after = select(which[lanes], jax.vmap(change, -1, -1)(mine, before), before)
        put: AggregatorState = jax.tree.map(
            lambda all_, new: all_.at[..., lanes].set(new), state, after
        )
        return put

    made: AggregatorState = jax.lax.fori_loop(0, -(-jnp.sum(which) // at_once), some, state)
    return made


# compiled separately, so that engines with the same policy share it
@partial(jax.jit, static_argnums=(0, 1))
def _initial_thetas(policy: Policy | TorchPolicy, initial: Initial, seeds: jax.Array) -> jax.Array:
    return jax.vmap(lambda seed: initial_theta(seed, policy, initial), in_axes=-1, out_axes=-1)(
        seeds
    )


def _take_row(rows: jax.Array, chosen: jax.Array) -> jax.Array:
    """Returns the row that is chosen in each lane: (…, W, lanes) → (…, lanes)."""
    if rows.shape[-2] > FEW_WORKERS:
        which = jnp.argmax(chosen, axis=0).reshape([1] * (rows.ndim - 1) + [-1])
        return jnp.take_along_axis(rows, which, axis=-2)[..., 0, :]
    row = rows[..., 0, :]
    for w in range(1, rows.shape[-2]):
        row = jnp.where(chosen[w], rows[..., w, :], row)
    return row


def _take(pending: Pending, chosen: jax.Array) -> Pending:
    return Pending(*(_take_row(rows, chosen) for rows in pending))


def engine_of(problem: Problem) -> Engine:
    """Returns the compiled loop for a problem, with the problem's own numbers."""
    config = problem.config
    return Engine(
        deliverer=problem.deliverer,
        training=problem.training,
        randomiser=problem.randomiser,
        aggregator=problem.aggregator,
        workers=config.workers,
        submissions=config.submissions,
        initial=problem.initial,
        stopping=stopping_rule(problem),
    )


def in_lanes(engine: Engine, lanes: int) -> Engine:
    """Returns the engine with each number repeated for every lane."""
    repeated: Engine = jax.tree.map(
        lambda x: jnp.broadcast_to(jnp.asarray(x)[..., None], (*jnp.shape(x), lanes)), engine
    )
    return repeated


def trial_seeds(seed: int, trials: Any) -> jax.Array:
    """Returns the two words that seed each trial, (2, trials)."""
    return jax.vmap(lambda i: trial_seed(seed, i), out_axes=-1)(jnp.asarray(trials))
