"""Evaluates policies: the mean score of greedy episodes for each ψ."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.local_training.definition import LocalTraining
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.worlds.base import CompiledWorld

POLICIES_AT_ONCE = 32


def greedy_scores(
    training: LocalTraining, thetas: np.ndarray, psis: list[Any], *, episodes: int, seed: int
) -> np.ndarray:
    """Returns mean scores (policies, ψs) of greedy play in a compiled world, `episodes` each.

    All policies start from the same states.
    """
    world, policy = training.world_and_policy
    stacked = jax.tree.map(
        lambda *values: np.repeat(np.asarray(values, np.float32), episodes), *psis
    )
    keys = jax.random.split(
        jax.random.fold_in(jax.random.key(seed), 2**32 - 1), len(psis) * episodes
    )
    out = [np.empty((0, len(psis)))]
    for first in range(0, len(thetas), POLICIES_AT_ONCE):
        some = thetas[first : first + POLICIES_AT_ONCE]
        padded = np.zeros((POLICIES_AT_ONCE, policy.dim), np.float32)  # one shape, one compilation
        padded[: len(some)] = some
        scores = _play(world, policy, jnp.asarray(padded.T), stacked, keys)
        out.append(
            np.asarray(scores)[: len(some)].reshape(len(some), len(psis), episodes).mean(axis=2)
        )
    return np.concatenate(out)


@partial(jax.jit, static_argnums=(0, 1))
def _play(
    world: CompiledWorld, policy: Policy, thetas: jax.Array, psis: Any, keys: jax.Array
) -> jax.Array:
    """Returns the scores (policies, episodes) of greedy episodes."""
    params = policy.unflatten(thetas[:, :, None])
    policies, (episodes,) = thetas.shape[1], keys.shape
    shape = (policies, episodes)
    start = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf[..., None, :], (*leaf.shape[:-1], *shape)),
        jax.vmap(world.reset, out_axes=-1)(keys, psis),
    )
    psis = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape), psis)
    step = jax.vmap(jax.vmap(world.step, (0, -1, -1, 0), -1), (None, -2, -2, 0), -2)
    observe = jax.vmap(jax.vmap(world.observe, -1, -1), -2, -2)

    def tick(carry: Any, t: jax.Array) -> tuple[Any, None]:
        state, alive, score = carry
        outputs, _ = policy.apply(params, observe(state))
        action = policy.actions.greedy(outputs)
        moved = step(jax.vmap(jax.random.fold_in, (0, None))(keys, t), state, action, psis)
        return (
            moved.state,
            alive & ~moved.terminated,
            score + jnp.where(alive, moved.reward, 0.0),
        ), None

    (_, _, scores), _ = jax.lax.scan(
        tick, (start, jnp.ones(shape, bool), jnp.zeros(shape)), jnp.arange(world.max_steps)
    )
    return scores
