"""One episode of a world that plays on the host, as pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.config import to_yaml
from pgc.engines.jobs import agents_of
from pgc.errors import PgcError
from pgc.problem import Problem
from pgc.worlds.host import reset, step


def host_film(problem: Problem, theta: np.ndarray, psi: Any, seed: int) -> list[np.ndarray]:
    """What the environment itself renders of a greedy episode, a picture for each state."""
    agents = agents_of(to_yaml(problem.config))
    world, network, actions = agents.world, agents.network, agents.world.actions
    env = world.make(psi, render=True)
    row, pictures = reset(env, world.observation, world.name, seed), []
    low, high = np.array(getattr(actions, "low", ())), np.array(getattr(actions, "high", ()))
    try:
        for _ in range(world.max_steps):
            pictures.append(np.asarray(env.render(), np.uint8))
            outputs = network.each(network.stack([theta.astype(float)]), row[None])[0]
            action = int(outputs.argmax()) if hasattr(actions, "count") else (low + high) / 2 + (high - low) / 2 * outputs
            row, _, terminated, truncated = step(env, world.observation, world.acting, action, world.name)
            if terminated or truncated:
                break
    except (TypeError, ValueError):
        raise PgcError(f"{world.name} does not render itself as pictures (rgb_array): leave out --gif") from None
    finally:
        env.close()
    return pictures
