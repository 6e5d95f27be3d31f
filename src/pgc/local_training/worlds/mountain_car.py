"""MountainCar with every physical constant a field of ψ (Moore 1990; Gymnasium's `MountainCar-v0`).

The reward is sparse.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Categorical


class MountainCarPsi(NamedTuple):
    """ψ: the car and its valley, in Gymnasium's units."""

    force: float = 0.001
    gravity: float = 0.0025
    goal: float = 0.5
    """The position to reach."""


class MountainCarState(NamedTuple):
    """Position and velocity of the car."""

    x: jax.Array
    x_dot: jax.Array


class MountainCar(CompiledWorld):
    """Drive an underpowered car out of a valley: push left, not at all, or right (0, 1, 2).

    The reward is −1 for every step until the goal is reached.
    """

    name = "mountain-car"
    observation_dim = 2
    actions = Categorical(3)
    max_steps = 200
    score_threshold = -130.0
    observation_bounds = ((-1.2, 0.6), (-0.07, 0.07))
    sketch_box = (-1.3, 0.7, -0.2, 1.3)
    default_psi = MountainCarPsi()
    positive = ("force",)
    default_population = ("gravity=0.0024,0.0025,0.0026",)

    left, right = -1.2, 0.6
    fastest = 0.07

    def reset(self, key: jax.Array, psi: MountainCarPsi) -> MountainCarState:
        """Draws the position uniformly from [−0.6, −0.4); the car is at rest."""
        x = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
        return MountainCarState(x, jnp.zeros_like(x))

    def step(
        self, key: jax.Array, state: MountainCarState, action: jax.Array, psi: MountainCarPsi
    ) -> Transition:
        """Moves the car as in Gymnasium; the wall on the left stops it."""
        push = (action - 1.0) * psi.force - jnp.cos(3 * state.x) * psi.gravity
        x_dot = jnp.clip(state.x_dot + push, -self.fastest, self.fastest)
        x = jnp.clip(state.x + x_dot, self.left, self.right)
        x_dot = jnp.where((x == self.left) & (x_dot < 0), 0.0, x_dot)
        terminated = ~(x < psi.goal)  # NaN ends the episode as well
        return Transition(MountainCarState(x, x_dot), jnp.full_like(x, -1.0), terminated)

    def observe(self, state: MountainCarState) -> jax.Array:
        """Returns the whole state as a vector."""
        return jnp.stack(state)

    def sketch(self, state: MountainCarState) -> list[tuple[list[float], list[float]]]:
        """Returns the valley, and the car as a short stroke on it."""
        x = float(state.x)
        along = [self.left + (self.right - self.left) * i / 60 for i in range(61)]
        return [
            (along, [_height(a) for a in along]),
            ([x - 0.05, x + 0.05], [_height(x) + 0.05] * 2),
        ]


def _height(x: float) -> float:
    return 0.45 * math.sin(3 * x) + 0.55
