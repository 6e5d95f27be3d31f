"""Step 4: the update rule.

All of this is post-processing of ε-LDP reports, so it costs no privacy: the buffer, the optimiser,
averaging, the cap on the policy's outputs and the repeated use of a report.

A partial buffer at the end of a run is *not* applied: the paper updates only when |B| reports are
there. Its reports are counted as received and as unused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from pgc.numerics.tracing import trace_fields
from pgc.update.cap import OutputCap


class AggregatorState(NamedTuple):
    """All that the aggregator knows."""

    theta: jax.Array  # θ (d,)
    basis: jax.Array | None  # W (d, k), made by step 1 from θ after each update
    version: jax.Array  # how many updates made θ
    received: jax.Array  # n: reports received, stale ones included
    buffer: jax.Array  # Σ g̃ over the buffer (d,); if it is trimmed, each g̃ (held, d)
    buffer_count: jax.Array  # how many reports are in the buffer
    optimizer: optax.OptState
    average: jax.Array  # mean of θ over the reports of the averaged part of the run (d,)
    averaged: jax.Array  # over how many reports `average` is taken
    discarded: jax.Array  # reports too stale to use


@dataclass(frozen=True, kw_only=True)
class Aggregator:
    """The update rule: pure functions from state to state, for one trial; `vmap` makes it many."""

    optimizer: optax.GradientTransformation
    """An optax optimiser with a learning rate of 1. It receives the mean of the buffer as the
    gradient; the paper's is plain gradient descent."""
    learning_rate: float | jax.Array
    """η: θ ← θ − η·mean (eq. update_param)."""
    buffer_size: int | jax.Array
    """|B|: θ moves once this many reports are in."""
    step_decay: float | jax.Array = math.inf
    """n₀: after n reports the step is η/√(1 + n/n₀); inf for η throughout (the paper)."""
    uses_per_report: int = 1
    """How many update steps are made from each full buffer before it is cleared."""
    max_staleness: int | None = None
    """A report computed from a θ that is more than this many versions old is dropped. None keeps
    all (the paper)."""
    average_from: int | jax.Array = 0
    """Until this many reports are received, the average is θ itself."""
    trim: float = 0.0
    """In each coordinate, this share of the lowest and of the highest values in the buffer is left
    out of the mean; with 0 nothing is left out (the paper)."""
    held: int = 0
    """The number of reports that the buffer keeps one by one: |B| if it is trimmed, 0 if it keeps
    only their sum. It repeats `buffer_size`, because a shape cannot be a traced number."""
    report_norm: float = math.inf
    """A report with a larger L2 norm in θ-space is scaled down to this norm; inf for no limit (the
    paper)."""
    coordinate_norm: float | jax.Array | None = None
    """A limit on the L2 norm of a report in the coordinates that agents report; None for no limit.
    It is stretched as the basis W stretches them."""
    cap: OutputCap | None = None
    """The cap that keeps the policy from becoming deterministic; None for no cap (the paper)."""

    def start(self, theta: jax.Array) -> AggregatorState:
        """Returns the state of version 0, without a basis: `Deliverer.with_basis` makes it."""
        zero = jnp.zeros((), jnp.int32)
        return AggregatorState(
            theta=theta,
            basis=None,
            version=zero,
            received=zero,
            buffer=jnp.zeros((self.held, *theta.shape)) if self.trims else jnp.zeros_like(theta),
            buffer_count=zero,
            optimizer=self.optimizer.init(theta),
            average=theta,
            averaged=zero,
            discarded=zero,
        )

    def accept(
        self, state: AggregatorState, report: jax.Array, version: jax.Array
    ) -> AggregatorState:
        """Returns the state after one decoded report g̃, computed from θ of `version` (step 4).

        Its basis is still the old one; `Deliverer.prepare` takes step 1 for it.
        """
        state = self.add(state, report, version)
        return self.average(jax.lax.cond(self.full(state), self.update, lambda same: same, state))

    def add(self, state: AggregatorState, report: jax.Array, version: jax.Array) -> AggregatorState:
        """Puts a report into the buffer, or drops it if it is too stale."""
        fresh = (
            jnp.ones((), bool)
            if self.max_staleness is None
            else state.version - version <= self.max_staleness
        )
        if self.report_norm < math.inf or self.coordinate_norm is not None:
            longest = self._longest(state)
            report = report * jnp.minimum(
                1.0, longest / jnp.maximum(jnp.linalg.norm(report), 1e-30)
            )
        if self.trims:
            place = jnp.arange(self.held) == state.buffer_count
            buffer = jnp.where((place & fresh)[:, None], report, state.buffer)
        else:
            buffer = state.buffer + jnp.where(fresh, report, 0.0)
        return state._replace(
            received=state.received + 1,
            buffer=buffer,
            buffer_count=state.buffer_count + fresh,
            discarded=state.discarded + ~fresh,
        )

    def full(self, state: AggregatorState) -> jax.Array:
        """Returns whether the buffer is full, so that θ is to be updated."""
        return state.buffer_count >= self.buffer_size

    def update(self, state: AggregatorState) -> AggregatorState:
        """Moves θ by the mean of the buffer, and empties the buffer."""
        theta, optimizer = state.theta, state.optimizer
        mean = self._mean(state.buffer)
        rate = self.learning_rate / jnp.sqrt(1 + state.received / self.step_decay)
        for _ in range(self.uses_per_report):
            change, optimizer = self.optimizer.update(mean, optimizer, theta)
            theta = theta + rate * change
        if self.cap is not None:
            theta = self.cap.apply(theta)
        return state._replace(
            theta=theta,
            version=state.version + self.uses_per_report,
            buffer=jnp.zeros_like(state.buffer),
            buffer_count=jnp.zeros_like(state.buffer_count),
            optimizer=optimizer,
        )

    @property
    def trims(self) -> bool:
        """Whether values are left out of the mean of a buffer."""
        return self.held > 0

    def _mean(self, buffer: jax.Array) -> jax.Array:
        if not self.trims:
            return buffer / self.buffer_size
        out = int(self.trim * self.held)  # reports left out at each end
        return jnp.mean(jnp.sort(buffer, axis=0)[out : self.held - out], axis=0)

    def average(self, state: AggregatorState) -> AggregatorState:
        """Adds the current θ to the average; this is done once for each report."""
        averaged = state.averaged + (state.received > self.average_from)
        # 1 until averaging begins, so that a run that stops early has its last θ as the average
        weight = 1.0 / jnp.maximum(averaged, 1)
        return state._replace(
            average=state.average + weight * (state.theta - state.average), averaged=averaged
        )

    @property
    def updates_are_expensive(self) -> bool:
        """Whether an update costs much more than adding a report."""
        return self.cap is not None

    def _longest(self, state: AggregatorState) -> jax.Array:
        """Returns the largest L2 norm that a report may have in θ-space."""
        if self.coordinate_norm is None:
            return jnp.asarray(self.report_norm)
        if state.basis is None:
            return jnp.minimum(self.report_norm, self.coordinate_norm)
        stretch = jnp.sqrt(jnp.sum(state.basis**2) / state.basis.shape[1])
        return jnp.minimum(self.report_norm, self.coordinate_norm * stretch)


trace_fields(
    Aggregator, "learning_rate", "buffer_size", "average_from", "step_decay", "coordinate_norm"
)
