"""How an agent turns π(·|s; θ) into an action: sampled or argmax, with probability α at random."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp


def alpha(received: jax.Array, start: float, decay: float) -> jax.Array:
    """The paper's schedule: α = max(0, 0.5 − n/1800), n = submissions received when θ is copied."""
    return jnp.maximum(0.0, start - received / decay)


def softmax(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """π and log π from logits (actions, *batch). The few actions are summed one by one (see `sum_of_products`)."""
    shifted = logits - functools.reduce(jnp.maximum, list(logits))
    powers = jnp.exp(shifted)
    total = functools.reduce(jnp.add, list(powers))
    return powers / total, shifted - jnp.log(total)


def behaviour(logits: jax.Array, exploration: jax.Array | float, greedy: jax.Array | bool) -> jax.Array:
    """Probabilities of the actions taken: (1 − α)·π + α/|A|, with π's argmax in place of π when `greedy`.

    `logits` is (actions, *batch). Ties of the argmax go to the lowest action.
    """
    num_actions = logits.shape[0]
    best = jnp.zeros(logits.shape[1:], jnp.int32)
    highest = logits[0]
    for a in range(1, num_actions):
        best = jnp.where(logits[a] > highest, a, best)
        highest = jnp.maximum(logits[a], highest)
    pure = jnp.stack([best == a for a in range(num_actions)]).astype(logits.dtype)
    pi = jnp.where(greedy, pure, softmax(logits)[0])
    return (1 - exploration) * pi + exploration / num_actions


def choose(probabilities: jax.Array, uniform: jax.Array) -> jax.Array:
    """The action that one uniform number in [0, 1) selects: inverse of the cumulative distribution."""
    action = jnp.zeros(uniform.shape, jnp.int32)
    cumulative = jnp.zeros_like(uniform)
    for a in range(probabilities.shape[0] - 1):
        cumulative = cumulative + probabilities[a]
        action = action + (uniform >= cumulative)
    return action
