"""How an agent computes the coordinates that it reports from its local episodes: by the policy
gradient, or by evolution.

Each estimator is written twice. `coordinates` is the definition, on whole episodes of one agent.
The other methods compute the same while many agents play side by side (the last axis is the lane)
and no episode is stored: `note` keeps what is needed of a step, `advance` adds a chunk of steps to
the traces of the episode, `finish` turns these into the episode's sums, and `combine` computes the
coordinates from the sums over all episodes of a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.estimators import evolution, streaming
from pgc.local_training.estimators.loss import (
    Episode,
    bootstrap_value,
    fit_features,
    fit_returns,
    gradient,
)
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.local_training.recipe import LossOptions, Recipe
from pgc.local_training.worlds.base import World
from pgc.numerics.projection import project, to_theta_space


class Step(NamedTuple):
    """One step: s_t, t, the network's forward pass at s_t, and the action."""

    observation: jax.Array
    t: jax.Array
    inputs: tuple[jax.Array, ...]  # inputs of the network's layers
    outputs: jax.Array
    value: jax.Array
    action: jax.Array


class End(NamedTuple):
    """How an episode ended."""

    length: jax.Array  # T
    observation: jax.Array  # s_T
    terminated: jax.Array  # whether s_T is terminal, not a time-out


@dataclass(frozen=True, kw_only=True)
class PolicyGradient:
    """Computes Wᵀ g, with g the gradient of the paper's loss (`loss.py`, `streaming.py`)."""

    policy: Policy
    loss: LossOptions
    world: World

    def parameters(self, theta: jax.Array, basis: jax.Array | None, xi: jax.Array) -> jax.Array:
        """Returns the parameters with which a local episode is played: θ."""
        return theta

    def coordinates(
        self, theta: jax.Array, basis: jax.Array | None, episodes: Sequence[Episode], xi: jax.Array
    ) -> jax.Array:
        """Returns z by its definition, from whole episodes."""
        return project(basis, gradient(theta, episodes, self.policy, self.loss, self.world))

    def start(self, batch: tuple[int, ...]) -> streaming.Traces:
        """Returns the traces before the first step of an episode."""
        return streaming.start(
            self.policy.dim, batch, _features(self.loss, self.world) if self.loss.fits else 0
        )

    def nothing(self, batch: tuple[int, ...]) -> streaming.Gradients:
        """Returns the sums before the first episode is finished."""
        return streaming.finish(
            self.start(batch), jnp.zeros(batch, jnp.int32), jnp.zeros(batch), self.loss
        )

    def note(self, params: Any, step: Step) -> streaming.Tape:
        """Returns what is kept of a step until its chunk is played."""
        f = (
            fit_features(self.loss, step.observation, step.t, self.world)
            if self.loss.fits
            else None
        )
        return streaming.tape(
            self.policy, params, step.inputs, step.outputs, step.value, step.action, f, self.loss
        )

    def advance(
        self, traces: Any, notes: Any, rewards: jax.Array, lived: jax.Array, begins: jax.Array
    ) -> streaming.Traces:
        """Returns the traces after a chunk of steps.

        `notes`, `rewards` and `lived` (which steps happened) have a leading time axis; `begins`
        says whether s_0 is in the chunk.
        """
        return streaming.advance(self.policy, traces, notes, rewards, lived, self.loss.discount)

    def finish(self, traces: Any, theta: jax.Array, xi: jax.Array, end: End) -> streaming.Gradients:
        """Returns the sums of one whole episode."""
        last_value = jnp.zeros(end.length.shape)
        if self.loss.bootstrap != "zero" and self.loss.critic:
            _, value = self.policy.apply(self.policy.unflatten(theta), end.observation)
            last_value = bootstrap_value(self.loss, value, end.terminated)
        return streaming.finish(traces, end.length, last_value, self.loss)

    def combine(self, sums: Any, basis: jax.Array | None, episodes: int) -> jax.Array:
        """Returns z from the sums over a report's local episodes."""
        return jax.vmap(project, -1, -1)(basis, streaming.combine(sums, episodes, self.loss))


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """Computes which direction was better among policies near θ, each of which was tried greedily
    for one episode (`evolution.py`).
    """

    policy: Policy
    loss: LossOptions
    world: World
    spread: float
    """σ: how far from θ policies are tried, in the coordinates that are reported."""
    dim: int
    """The number of coordinates that are reported."""

    def parameters(self, theta: jax.Array, basis: jax.Array | None, xi: jax.Array) -> jax.Array:
        """Returns the parameters with which a local episode is played: θ + σ W ξ."""
        return theta + self.spread * (
            to_theta_space(basis, xi)
            if xi.ndim == 1
            else jax.vmap(to_theta_space, -1, -1)(basis, xi)
        )

    def coordinates(
        self, theta: jax.Array, basis: jax.Array | None, episodes: Sequence[Episode], xi: jax.Array
    ) -> jax.Array:
        """Returns z by its definition, from whole episodes played with ξ (dim, e)."""
        return (
            evolution.coordinates(
                *fit_returns(theta, episodes, self.policy, self.loss, self.world), xi
            )
            / self.spread
        )

    def start(self, batch: tuple[int, ...]) -> evolution.Traces:
        """Returns the traces before the first step of an episode."""
        return evolution.start(batch, _features(self.loss, self.world))

    def nothing(self, batch: tuple[int, ...]) -> evolution.Sums:
        """Returns the sums before the first episode is finished."""
        return evolution.finish(self.start(batch), jnp.zeros((self.dim, *batch)))

    def note(self, params: Any, step: Step) -> jax.Array:
        """Returns what is kept of a step until its chunk is played."""
        return fit_features(self.loss, step.observation, step.t, self.world)

    def advance(
        self, traces: Any, notes: Any, rewards: jax.Array, lived: jax.Array, begins: jax.Array
    ) -> evolution.Traces:
        """Returns the traces after a chunk of steps.

        `notes`, `rewards` and `lived` (which steps happened) have a leading time axis; `begins`
        says whether s_0 is in the chunk.
        """
        return evolution.advance(traces, notes, rewards, lived, begins, self.loss.discount)

    def finish(self, traces: Any, theta: jax.Array, xi: jax.Array, end: End) -> evolution.Sums:
        """Returns the sums of one whole episode, which was played with ξ (dim, *batch)."""
        return evolution.finish(traces, xi)

    def combine(self, sums: Any, basis: jax.Array | None, episodes: int) -> jax.Array:
        """Returns z from the sums over a report's local episodes."""
        return evolution.combine(sums, episodes, self.loss) / self.spread


Estimator = PolicyGradient | Evolution


def make_estimator(
    recipe: Recipe, policy: Policy | TorchPolicy, world: World, dim: int
) -> Estimator:
    """Returns the estimator that a recipe names, for reports of `dim` numbers."""
    # A policy in PyTorch differentiates itself (`on_host.py`), and needs only the options of the
    # estimator.
    made: Any = policy
    if recipe.evolves:
        return Evolution(policy=made, loss=recipe.loss, world=world, spread=recipe.spread, dim=dim)
    return PolicyGradient(policy=made, loss=recipe.loss, world=world)


def _features(loss: LossOptions, world: World) -> int:
    """Returns the number of features of the fit to the returns."""
    return int(
        fit_features(loss, jnp.zeros((world.observation_dim,)), jnp.zeros(()), world).shape[0]
    )
