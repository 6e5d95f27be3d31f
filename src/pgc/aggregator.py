"""Steps 1 and 4: the central aggregator. It hands out θ, buffers decoded reports, and updates θ from them alone.

Everything here is post-processing of ε-LDP reports, so it costs no privacy: the buffer, the optimiser, averaging and the
repeated use of a report.

A partial buffer at the end of a run is *not* applied: the paper updates only when |B| reports are there. Its reports are
counted as received and as unused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax

from pgc.tracing import trace_fields

Tree = TypeVar("Tree")


class AggregatorState(NamedTuple):
    """All that the aggregator knows."""

    theta: jax.Array  # θ (d,)
    version: jax.Array  # how many updates made θ
    received: jax.Array  # n: reports received, stale ones included
    buffer_sum: jax.Array  # Σ g̃ over B (d,)
    buffer_count: jax.Array  # |B| so far
    optimizer: optax.OptState
    average: jax.Array  # mean of θ over the reports of the averaged part of the run (d,)
    averaged: jax.Array  # over how many
    discarded: jax.Array  # reports too stale to use


@dataclass(frozen=True, kw_only=True)
class Aggregator:
    """The update rule. Pure: states in, states out; one trial, batched by `vmap`."""

    optimizer: optax.GradientTransformation
    """Receives the mean of the buffer as the gradient. The paper's: θ ← θ − η·mean (eq. update_param)."""
    buffer_size: int | jax.Array
    """|B|: θ moves once this many reports are in."""
    uses_per_report: int = 1
    """How many update steps are made from each full buffer before it is cleared."""
    max_staleness: int | None = None
    """A report computed from a θ that is more than this many versions old is dropped. None keeps all (the paper)."""
    average_from: int | jax.Array = 0
    """θ is averaged over the reports after this many; until then the average is θ itself."""

    def start(self, theta: jax.Array) -> AggregatorState:
        """Version 0."""
        zero = jnp.zeros((), jnp.int32)
        return AggregatorState(
            theta=theta,
            version=zero,
            received=zero,
            buffer_sum=jnp.zeros_like(theta),
            buffer_count=zero,
            optimizer=self.optimizer.init(theta),
            average=theta,
            averaged=zero,
            discarded=zero,
        )

    def accept(self, state: AggregatorState, report: jax.Array, version: jax.Array) -> AggregatorState:
        """Take one decoded report g̃ that was computed from θ of `version`."""
        fresh = jnp.ones((), bool) if self.max_staleness is None else state.version - version <= self.max_staleness
        buffer_sum = state.buffer_sum + jnp.where(fresh, report, 0.0)
        buffer_count = state.buffer_count + fresh
        full = buffer_count >= self.buffer_size

        theta, optimizer = state.theta, state.optimizer
        mean = buffer_sum / self.buffer_size
        for _ in range(self.uses_per_report):
            change, optimizer = self.optimizer.update(mean, optimizer, theta)
            theta = optax.apply_updates(theta, change)
        theta, optimizer = select(full, (theta, optimizer), (state.theta, state.optimizer))

        received = state.received + 1
        averaged = state.averaged + (received > self.average_from)
        weight = 1.0 / jnp.maximum(averaged, 1)  # 1 until averaging starts: a run that stops early has its last θ
        return AggregatorState(
            theta=theta,
            version=state.version + full * self.uses_per_report,
            received=received,
            buffer_sum=jnp.where(full, 0.0, buffer_sum),
            buffer_count=jnp.where(full, 0, buffer_count),
            optimizer=optimizer,
            average=state.average + weight * (theta - state.average),
            averaged=averaged,
            discarded=state.discarded + ~fresh,
        )


trace_fields(Aggregator, "buffer_size", "average_from")


def select(condition: jax.Array, yes: Tree, no: Tree) -> Tree:
    """`where` over two trees of the same shape."""
    chosen: Tree = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen
