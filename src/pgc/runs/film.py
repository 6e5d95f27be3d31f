"""Renders one episode of a world that plays on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.config.problem import Problem
from pgc.engines.jobs import host_policy
from pgc.errors import PgcError, in_one_line
from pgc.local_training.numpy_actions import greedy
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import HostWorld, reset, step


def host_film(problem: Problem, theta: np.ndarray, psi: Any, seed: int) -> list[np.ndarray]:
    """Returns a picture of each state of a greedy episode, as the environment renders it."""
    world, network, recipe = problem.training.world, host_policy(problem), problem.training.recipe
    assert isinstance(world, HostWorld)
    try:
        env = world.make(psi, render=True)
    except PgcError:
        raise PgcError(
            f"{world.name} takes no render_mode, so it cannot render itself: leave out --gif"
        ) from None
    row, pictures = reset(env, world.observation, world.name, seed), []
    try:
        for _ in range(world.max_steps):
            pictures.append(_picture(env, world.name))
            outputs = network.each(network.stack([theta.astype(float)]), row[None])
            [action] = greedy(recipe, outputs)
            row, _, terminated, truncated = step(
                env, world.observation, world.acting, action, world.name
            )
            if terminated or truncated:
                break
    finally:
        close(env)
    return pictures


def _picture(env: Any, name: str) -> np.ndarray:
    try:
        picture = np.asarray(env.render(), np.uint8)
        if picture.ndim != 3:
            raise ValueError("not a picture")
    except Exception as error:  # an environment may raise anything
        raise PgcError(
            f"{name} does not render itself as pictures: leave out --gif ({in_one_line(error)})"
        ) from None
    return picture
