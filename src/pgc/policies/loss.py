"""The empirical A3C loss L̂_n(θ'; H_n, λ) of the paper, on one unbatched episode.

| symbol | here |
|---|---|
| γ, λ, β | `discount`, `value_weight`, `entropy_weight` |
| R_t = Σ_{j=t}^{T−1} γ^{j−t} r_j + γ^{T−t} V(s_T) | `returns`; the target V̂(s_t), and A(s_t) = R_t − V(s_t) |
| L̂^(p) = −Σ log π(a_t|s_t)·A(s_t) − β Σ H(π(·|s_t)) | `episode_loss` |
| L̂^(v) = Σ (R_t − V(s_t))² | `episode_loss` |

The targets, and A in the policy term, are constants of the gradient, as in A3C (Mnih et al. 2016). Sums run over t < T: there
is no action in s_T. The sign of the entropy term is the empirical loss's (a bonus), not the expectation's.

This file is the definition. `streaming.py` computes the same gradient while playing, without storing an episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from pgc.policies.actor_critic import ActorCritic

STD_FLOOR = 1e-6
"""Returns that are all alike are only centred."""


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """The loss and the choices that the paper's text leaves open."""

    discount: float = 0.99
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    reward: Literal["step", "end", "failure"] = "step"
    bootstrap: Literal["zero", "always", "timeout"] = "always"
    reduction: Literal["sum", "mean"] = "sum"
    standardize: Literal["no", "center", "scale"] = "no"


class Episode(NamedTuple):
    """One history H_n, padded to a fixed capacity; steps t ≥ `length` do not exist."""

    observations: jax.Array  # (features, capacity + 1), s_0 … s_T
    actions: jax.Array  # (capacity,)
    rewards: jax.Array  # (capacity,), the world's own
    length: jax.Array  # T
    terminated: jax.Array  # s_T is terminal, not a time-out


def shaped_reward(kind: str, reward: jax.Array, ends: jax.Array, terminated: jax.Array, success: jax.Array) -> jax.Array:
    """The reward that the loss sees at one step.

    `step`: the world's own. `end`: 0 until the episode ends, then +1 if its score reached Θ, else −1.
    `failure`: −1 on reaching a terminal state, else 0.
    """
    if kind == "end":
        return jnp.where(ends, jnp.where(success, 1.0, -1.0), 0.0)
    if kind == "failure":
        return jnp.where(ends & terminated, -1.0, 0.0)
    return reward


def bootstrap_value(kind: str, value: jax.Array, terminated: jax.Array) -> jax.Array:
    """What stands for V(s_T): `zero` nothing, `always` the network's value, `timeout` that only if s_T is not terminal."""
    if kind == "zero":
        return jnp.zeros_like(value)
    if kind == "timeout":
        return jnp.where(terminated, 0.0, value)
    return value


def returns(rewards: jax.Array, length: jax.Array, last_value: jax.Array, discount: float) -> jax.Array:
    """R_t for t < T; anything after."""

    def back(after: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, t = at
        now = jnp.where(t < length, reward + discount * after, after)
        return now, now

    _, out = jax.lax.scan(back, last_value, (rewards, jnp.arange(rewards.shape[0])), reverse=True)
    return out


def episode_loss(theta: jax.Array, episode: Episode, targets: jax.Array, policy: ActorCritic, options: LossOptions) -> jax.Array:
    """L̂_n for one episode and given targets (constants)."""
    observations = episode.observations[:, :-1]
    params = policy.unflatten(jnp.broadcast_to(theta[:, None], (policy.dim, observations.shape[1])))
    logits, values = policy.apply(params, observations)  # (actions, capacity), (capacity,)
    log_pi = jax.nn.log_softmax(logits, axis=0)
    chosen = jnp.take_along_axis(log_pi, episode.actions[None], axis=0)[0]
    entropy = -jnp.sum(jnp.exp(log_pi) * log_pi, axis=0)
    advantage = jax.lax.stop_gradient(targets - values)

    per_step = (
        -chosen * advantage
        - options.entropy_weight * entropy
        + options.value_weight * (jax.lax.stop_gradient(targets) - values) ** 2
    )
    happened = jnp.arange(per_step.shape[0]) < episode.length
    total = jnp.sum(jnp.where(happened, per_step, 0.0))
    return total / episode.length if options.reduction == "mean" else total


def episode_returns(theta: jax.Array, episode: Episode, policy: ActorCritic, options: LossOptions, threshold: float) -> jax.Array:
    """R_t of an episode under the chosen reward shape and bootstrap."""
    t = jnp.arange(episode.rewards.shape[0])
    happened = t < episode.length
    score = jnp.cumsum(jnp.where(happened, episode.rewards, 0.0))
    rewards = shaped_reward(options.reward, episode.rewards, t == episode.length - 1, episode.terminated, score >= threshold)
    last = jnp.take(episode.observations, episode.length, axis=1)
    _, value = policy.apply(policy.unflatten(theta), last)
    return returns(rewards, episode.length, bootstrap_value(options.bootstrap, value, episode.terminated), options.discount)


def gradient(
    theta: jax.Array, episodes: Sequence[Episode], policy: ActorCritic, options: LossOptions, threshold: float
) -> jax.Array:
    """g_n = ∂L̂_n/∂θ', the mean over the local episodes of one report.

    With `standardize`, returns are centred (and divided by their deviation) over all steps of all these episodes.
    """
    all_returns = [episode_returns(theta, e, policy, options, threshold) for e in episodes]
    if options.standardize != "no":
        happened = jnp.stack([jnp.arange(e.rewards.shape[0]) < e.length for e in episodes])
        stacked = jnp.stack(all_returns)
        mean = jnp.mean(stacked, where=happened)
        deviation = jnp.std(stacked, where=happened) if options.standardize == "scale" else 1.0
        all_returns = [(r - mean) / jnp.maximum(deviation, STD_FLOOR) for r in all_returns]
    grads = [
        jax.grad(episode_loss)(theta, episode, targets, policy, options)
        for episode, targets in zip(episodes, all_returns, strict=True)
    ]
    total: jax.Array = sum(grads[1:], grads[0])
    return total / len(grads)
