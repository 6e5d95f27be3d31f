"""One greedy episode, step by step: to be filmed, or to be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config.problem import Problem
from pgc.engines.backend import plays_on_host
from pgc.engines.jobs import host_policy
from pgc.local_training.numpy_actions import greedy
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import HostWorld, reset, step
from pgc.spaces import Bounds

WIDER, LEFT = 2.0, 0.25
"""A box is wrong for a number that, in more than a quarter of the steps, is outside a box twice as
wide. (Values a little outside are usual, and do no harm.)"""

FILLED = 0.05
"""A box is too wide for a number that varies, and fills less than this share of it."""


def usual_observations(problem: Problem, theta: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns the observations (steps, n) of one greedy episode of `theta` in the usual world,
    which is public.
    """
    psi = problem.training.world.default_psi
    return np.array(greedy_observations(problem, theta, psi, seed), float)


def outside_the_box(bounds: Bounds, seen: np.ndarray) -> list[tuple[int, float]]:
    """Returns the numbers of an observation that are often far outside the public box, each with
    the share of the steps in which it is.
    """
    if not bounds:
        return []
    low, high = np.array(bounds, float).T
    from_middle = np.abs(seen - (low + high) / 2) / np.maximum((high - low) / 2, 1e-12)
    shares = (from_middle > WIDER).mean(axis=0)
    return [(i, float(share)) for i, share in enumerate(shares) if share > LEFT]


def too_wide(bounds: Bounds, seen: np.ndarray) -> list[tuple[int, tuple[float, float]]]:
    """Returns the numbers that vary, and fill only a small part of the public box, with the range
    that they fill.
    """
    found = []
    for i, (low, high) in enumerate(bounds):
        least, most = float(seen[:, i].min()), float(seen[:, i].max())
        if 0 < most - least < FILLED * (high - low):
            found.append((i, (least, most)))
    return found


def greedy_observations(
    problem: Problem, theta: np.ndarray, psi: Any, seed: int
) -> list[np.ndarray]:
    """Returns the observations of one greedy episode of `theta`."""
    if not plays_on_host(problem):
        observe = problem.training.world_and_policy[0].observe
        return [np.asarray(observe(s)) for s in greedy_states(problem, theta, psi, seed)]
    world = problem.training.world
    assert isinstance(world, HostWorld)
    env = world.make(psi)
    try:
        return list(host_episode(problem, theta, env, seed))
    finally:
        close(env)


def host_episode(problem: Problem, theta: np.ndarray, env: Any, seed: int) -> Iterator[np.ndarray]:
    """Plays one greedy episode of `theta` on the host, and yields each observation."""
    world, network, recipe = problem.training.world, host_policy(problem), problem.training.recipe
    assert isinstance(world, HostWorld)
    row = reset(env, world.observation, world.name, seed)
    for _ in range(world.max_steps):
        yield row
        outputs = network.each(network.stack([theta.astype(float)]), row[None])
        [action] = greedy(recipe, outputs)
        row, _, terminated, truncated = step(
            env, world.observation, world.acting, action, world.name
        )
        if terminated or truncated:
            return


def greedy_states(problem: Problem, theta: np.ndarray, psi: Any, seed: int) -> list[Any]:
    """Returns the states of one greedy episode of `theta` in a compiled world."""
    world, policy = problem.training.world_and_policy
    params = policy.unflatten(jnp.asarray(theta))
    key = jax.random.key(seed)
    state = world.reset(key, psi)

    @jax.jit
    def step(t: jax.Array, state: Any) -> Any:
        outputs, _ = policy.apply(params, world.observe(state))
        return world.step(jax.random.fold_in(key, t), state, policy.actions.greedy(outputs), psi)

    states = [state]
    for t in range(world.max_steps):
        state, _, terminated = step(jnp.asarray(t), state)
        states.append(state)
        if terminated:
            break
    return states
