"""The empirical A3C loss L̂_n(θ'; H_n, λ) of the paper, on one unbatched episode.

| symbol | here |
|---|---|
| γ, λ, β | `discount`, `value_weight`, `entropy_weight` |
| R_t = Σ_{j=t}^{T−1} γ^{j−t} r_j + γ^{T−t} V(s_T) | `returns`; the target; A(s_t) = R_t − V(s_t) |
| L̂^(p) = −Σ log π(a_t|s_t)·A(s_t) − β Σ H(π(·|s_t)) | `episode_loss` |
| L̂^(v) = Σ (R_t − V(s_t))² | `episode_loss` |

The targets, and A in the policy term, are constants of the gradient, as in A3C (Mnih et al. 2016).
Sums run over t < T: there is no action in s_T. The sign of the entropy term is the empirical loss's
(a bonus), not the expectation's.

This file is the definition. `streaming.py` computes the same gradient while playing, without
storing an episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.estimators import baseline
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.recipe import STD_FLOOR, LossOptions
from pgc.local_training.worlds.base import World


class Episode(NamedTuple):
    """One history H_n, padded to a fixed capacity; steps t ≥ `length` do not exist."""

    observations: jax.Array  # (features, capacity + 1), s_0 … s_T
    actions: jax.Array  # (capacity,), or (dim, capacity) where they are continuous
    rewards: jax.Array  # (capacity,), the world's own
    length: jax.Array  # T
    terminated: jax.Array  # s_T is terminal, not a time-out


def shaped_reward(
    kind: str, reward: jax.Array, ends: jax.Array, terminated: jax.Array, success: jax.Array
) -> jax.Array:
    """Returns the reward that the loss sees at one step.

    `step`: the world's own. `end`: 0 until the episode ends, then +1 if its score reached Θ, else
    −1. `failure`: −1 on reaching a terminal state, else 0.
    """
    if kind == "end":
        return jnp.where(ends, jnp.where(success, 1.0, -1.0), 0.0)
    if kind == "failure":
        return jnp.where(ends & terminated, -1.0, 0.0)
    return reward


def bootstrap_value(options: LossOptions, value: jax.Array, terminated: jax.Array) -> jax.Array:
    """Returns the number that takes the place of V(s_T) in the returns.

    It is 0 for `zero`, the network's value for `always`, and for `timeout` the network's value if
    s_T is not terminal, else 0.
    """
    kind = options.bootstrap
    if kind == "zero" or not options.critic:
        return jnp.zeros_like(value)
    if kind == "timeout":
        return jnp.where(terminated, 0.0, value)
    return value


def returns(
    rewards: jax.Array, length: jax.Array, last_value: jax.Array, discount: float
) -> jax.Array:
    """Returns R_t for t < T; later entries have no meaning."""

    def back(after: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, t = at
        now = jnp.where(t < length, reward + discount * after, after)
        return now, now

    _, out = jax.lax.scan(back, last_value, (rewards, jnp.arange(rewards.shape[0])), reverse=True)
    return out


def episode_loss(
    theta: jax.Array, episode: Episode, targets: jax.Array, policy: Policy, options: LossOptions
) -> jax.Array:
    """Returns L̂_n for one episode and given targets, which are constants of the gradient."""
    observations = episode.observations[:, :-1]
    params = policy.unflatten(jnp.broadcast_to(theta[:, None], (policy.dim, observations.shape[1])))
    outputs, values = policy.apply(params, observations)  # (outputs, capacity), (capacity,)
    chosen = policy.actions.log_probability(outputs, episode.actions)
    entropy = policy.actions.entropy(outputs)
    values = values if options.critic else targets  # without a critic: no value loss ...
    # ... and no baseline
    advantage = jax.lax.stop_gradient(targets - values if options.critic else targets)

    per_step = (
        -chosen * advantage
        - options.entropy_weight * entropy
        + options.value_weight * (jax.lax.stop_gradient(targets) - values) ** 2
    )
    happened = jnp.arange(per_step.shape[0]) < episode.length
    total = jnp.sum(jnp.where(happened, per_step, 0.0))
    return total / episode.length if options.reduction == "mean" else total


def episode_returns(
    theta: jax.Array, episode: Episode, policy: Policy, options: LossOptions, threshold: float
) -> jax.Array:
    """Returns R_t of an episode under the chosen reward shape and bootstrap."""
    t = jnp.arange(episode.rewards.shape[0])
    happened = t < episode.length
    score = jnp.cumsum(jnp.where(happened, episode.rewards, 0.0))
    rewards = shaped_reward(
        options.reward,
        episode.rewards,
        t == episode.length - 1,
        episode.terminated,
        score >= threshold,
    )
    last = jnp.take(episode.observations, episode.length, axis=1)
    _, value = policy.apply(policy.unflatten(theta), last)
    return returns(
        rewards,
        episode.length,
        bootstrap_value(options, value, episode.terminated),
        options.discount,
    )


def fit_features(
    options: LossOptions, observation: jax.Array, step: jax.Array, world: World
) -> jax.Array:
    """Returns the features of the fit to the returns: of a local baseline, or a constant."""
    if options.baseline == "local":
        return baseline.features(observation, step, world.observation_bounds, world.max_steps)
    return jnp.ones((1, *observation.shape[1:]))


def fitted(options: LossOptions, gram: jax.Array, cross: jax.Array) -> jax.Array:
    """Returns the coefficients of the fit: those of the local baseline, or the mean."""
    return (
        baseline.fit(gram, cross)
        if options.baseline == "local"
        else cross / jnp.maximum(gram[0], 1)
    )


def fit_returns(
    theta: jax.Array,
    episodes: Sequence[Episode],
    policy: Policy,
    options: LossOptions,
    world: World,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns R_0 (e,), f(s_0) (k, e), and the coefficients β of the agent's fit to all its steps.

    The returns are not bootstrapped: V(s_T) counts as 0.
    """
    options = replace(options, bootstrap="zero")
    returns = [episode_returns(theta, e, policy, options, world.score_threshold) for e in episodes]
    stacked, f, _ = _with_features(returns, episodes, options, world)
    beta = fitted(options, jnp.einsum("iet,jet->ij", f, f), jnp.einsum("iet,et->i", f, stacked))
    return stacked[:, 0], f[:, :, 0], beta


def _with_features(
    all_returns: Sequence[jax.Array],
    episodes: Sequence[Episode],
    options: LossOptions,
    world: World,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns R_t (e, t) and f_t (k, e, t), zero where no step happened, and which did."""
    happened = jnp.stack([jnp.arange(e.rewards.shape[0]) < e.length for e in episodes])
    stacked = jnp.where(happened, jnp.stack(all_returns), 0.0)
    steps = jnp.arange(stacked.shape[1])
    f = (
        jnp.stack(
            [fit_features(options, e.observations[:, :-1], steps, world) for e in episodes], axis=1
        )
        * happened
    )
    return stacked, f, happened


def gradient(
    theta: jax.Array,
    episodes: Sequence[Episode],
    policy: Policy,
    options: LossOptions,
    world: World,
) -> jax.Array:
    """Returns g_n = ∂L̂_n/∂θ', averaged over the local episodes of one report.

    With `standardize`, returns are centred (and divided by their deviation) over all steps of all
    these episodes; with a `local` baseline, a fit to all of them is subtracted.
    """
    all_returns = [
        episode_returns(theta, e, policy, options, world.score_threshold) for e in episodes
    ]
    if options.fits:
        stacked, f, happened = _with_features(all_returns, episodes, options, world)
        beta = fitted(options, jnp.einsum("iet,jet->ij", f, f), jnp.einsum("iet,et->i", f, stacked))
        residual = stacked - jnp.einsum("i,iet->et", beta, f)
        deviation = (
            jnp.sqrt(jnp.mean(residual**2, where=happened))
            if options.standardize == "scale"
            else 1.0
        )
        all_returns = list(residual / jnp.maximum(deviation, STD_FLOOR))
    grads = [
        jax.grad(episode_loss)(theta, episode, targets, policy, options)
        for episode, targets in zip(episodes, all_returns, strict=True)
    ]
    total: jax.Array = sum(grads[1:], grads[0])
    return total / len(grads)
