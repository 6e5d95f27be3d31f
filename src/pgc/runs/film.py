"""Films episodes: what a policy does, as a GIF."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.config.problem import Problem
from pgc.deliver.initial import initial_theta
from pgc.engines.backend import plays_on_host
from pgc.errors import PgcError, in_one_line
from pgc.local_training.worlds.base import CompiledWorld
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import HostWorld
from pgc.numerics.randomness import trial_seed
from pgc.runs import figures
from pgc.runs.episode import greedy_states, host_episode


def check_can_film(problem: Problem) -> None:
    """Refuses a world that cannot be drawn, before an hour of work."""
    if not plays_on_host(problem):
        world, _ = problem.training.world_and_policy
        if type(world).sketch is CompiledWorld.sketch:
            world.sketch(None)


def episode_film(problem: Problem, theta: np.ndarray, psi: Any, name: str, seed: int) -> bytes:
    """Returns a GIF of one greedy episode of `theta`."""
    if plays_on_host(problem):
        return figures.film(host_film(problem, theta, psi, seed), every=2)
    world = problem.training.world_and_policy[0]
    states = greedy_states(problem, theta, psi, seed)
    return figures.animation(world, {f"{world.name} {name}": states}, every=2)


def learning_film(problem: Problem, theta: np.ndarray, seed: int = 3) -> bytes:
    """Returns a GIF of one greedy episode before learning and one after, side by side; only the
    second, if the world plays on the host. Both have the same start.
    """
    psi = problem.training.population.grid()[0]
    if plays_on_host(problem):
        return figures.film(host_film(problem, theta, psi, seed), every=2)
    world, policy = problem.training.world_and_policy
    first = initial_theta(trial_seed(problem.config.seed, 0), policy, problem.initial)
    after = f"after {problem.config.submissions:,} private reports"
    if problem.epsilon == float("inf"):
        after = f"after {problem.config.submissions:,} reports without privacy"
    panels = {
        "before": greedy_states(problem, np.asarray(first), psi, seed),
        after: greedy_states(problem, theta, psi, seed),
    }
    return figures.animation(world, panels, every=3)


def host_film(problem: Problem, theta: np.ndarray, psi: Any, seed: int) -> list[np.ndarray]:
    """Returns a picture of each state of a greedy episode, as the environment renders it."""
    world = problem.training.world
    assert isinstance(world, HostWorld)
    try:
        env = world.make(psi, render=True)
    except PgcError:
        raise PgcError(
            f"{world.name} takes no render_mode, so it cannot render itself: leave out --gif"
        ) from None
    try:
        return [_picture(env, world.name) for _ in host_episode(problem, theta, env, seed)]
    finally:
        close(env)


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
