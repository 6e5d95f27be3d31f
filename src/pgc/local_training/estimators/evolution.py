"""A gradient without derivatives: an agent tries policies near θ, each for one whole episode, and
reports which direction was better.

Episode e is played greedily with θ + σ·W ξ_e, ξ_e standard normal in the subspace W of the offer,
and

    z = −(Σ_e ξ_e ξ_eᵀ + k·I)⁻¹ Σ_e A_e ξ_e / σ,     A_e = R_e − V̂(s_0) − (mean over e),

estimates the gradient of the loss with respect to the k coefficients of W, smoothed over σ
(Salimans et al. 2017, "Evolution strategies as a scalable alternative to reinforcement learning").
R_e is the discounted return from the first state and V̂ the agent's local baseline (`baseline.py`),
fitted to every step of its episodes, so that a lucky first state does not count. The ridge
regression on the tried ξ_e, in place of the plain sum, makes up for directions that were tried more
than others.

It suits reports under local privacy: it needs few episodes in a small subspace; it judges the
greedy policy, which is what is deployed; and it can find a reward that random actions never find,
because a tried policy differs from θ in the same way for a whole episode.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.estimators.loss import fitted
from pgc.local_training.estimators.streaming import ReturnSums, add_steps, no_sums
from pgc.local_training.recipe import LossOptions
from pgc.numerics.elimination import ridge_regression
from pgc.numerics.sums import sum_of_products

MOST_DIRECTIONS = 256
"""The most coordinates of a report; its ridge regression takes memory for their square."""


class Traces(NamedTuple):
    """What an agent remembers of the episode it is playing."""

    value: jax.Array  # R_e so far
    power: jax.Array  # γ^t
    first: jax.Array  # f(s_0, 0) (k, *batch)
    sums: ReturnSums  # for V̂


class Sums(NamedTuple):
    """Sums over the finished episodes of one report."""

    directions: jax.Array  # Σ_e R_e ξ_e (dim, *batch)
    squares: jax.Array  # Σ_e ξ_e ξ_eᵀ (dim, dim, *batch)
    by_feature: jax.Array  # Σ_e f(s_0) ξ_eᵀ (k, dim, *batch)
    values: jax.Array  # Σ_e R_e
    firsts: jax.Array  # Σ_e f(s_0) (k, *batch)
    sums: ReturnSums


def start(batch: tuple[int, ...], features: int) -> Traces:
    """Returns the traces before the first step of an episode."""
    return Traces(
        jnp.zeros(batch), jnp.ones(batch), jnp.zeros((features, *batch)), no_sums(batch, features)
    )


def advance(
    traces: Traces,
    features: jax.Array,
    rewards: jax.Array,
    lived: jax.Array,
    begins: jax.Array,
    discount: float,
) -> Traces:
    """Returns the traces after a chunk of n steps.

    `features` are f_t (n, k, *batch) and `rewards` (n, *batch); `lived` says which steps happened,
    and `begins` where s_0 is the first of them.
    """
    value, power = traces.value, traces.power
    for reward, live in zip(rewards, lived, strict=True):
        value = value + jnp.where(live, power * reward, 0.0)
        power = jnp.where(live, discount * power, power)
    first = jnp.where(begins, features[0], traces.first)
    return Traces(value, power, first, add_steps(traces.sums, features, rewards, lived, discount))


def finish(traces: Traces, xi: jax.Array) -> Sums:
    """Returns the sums of one whole episode that was played with ξ (dim, *batch)."""
    by_feature = traces.first[:, None] * xi[None]
    return Sums(
        traces.value * xi,
        xi[:, None] * xi[None],
        by_feature,
        traces.value,
        traces.first,
        traces.sums,
    )


def combine(total: Sums, episodes: int, options: LossOptions) -> jax.Array:
    """Returns σ·z (dim, *batch) from the sums over a report's local episodes."""
    beta = fitted(options, total.sums.gram, total.sums.total)
    mean = (total.values - sum_of_products(list(beta), list(total.firsts))) / episodes
    # the first feature is 1
    explained = sum_of_products(list(beta), list(total.by_feature)) + mean * total.by_feature[0]
    return ridge_regression(total.squares, explained - total.directions, total.directions.shape[0])


def coordinates(values: jax.Array, firsts: jax.Array, beta: jax.Array, xi: jax.Array) -> jax.Array:
    """Returns σ·z by its definition, from R_e (e,), f(s_0) (k, e), β and ξ (dim, e)."""
    advantage = values - beta @ firsts
    return -ridge_regression(xi @ xi.T, xi @ (advantage - jnp.mean(advantage)), xi.shape[0])
