"""Pendulum with every physical constant a field of ψ (Gymnasium's `Pendulum-v1`). The action is
continuous.

No linear function of the observation swings the pendulum up *and* holds it: below, it must push
with the velocity; above, against it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Gaussian


class PendulumPsi(NamedTuple):
    """ψ: the physics of one agent's pendulum, in SI units."""

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    time_step: float = 0.05


class PendulumState(NamedTuple):
    """Angle from upright and its velocity."""

    angle: jax.Array
    angle_dot: jax.Array


class Pendulum(CompiledWorld):
    """Swing a pendulum up and hold it by a torque in [−2, 2], too weak to lift it at once."""

    name = "pendulum"
    observation_dim = 3
    actions = Gaussian((-2.0,), (2.0,))
    max_steps = 200
    score_threshold = -250.0
    observation_bounds = ((-1.0, 1.0), (-1.0, 1.0), (-8.0, 8.0))
    # the velocity varies from −2.5 to 5 in the public play of gymnasium:Pendulum-v1
    usual_bounds = ((-1.0, 1.0), (-1.0, 1.0), (-5.0, 5.0))
    sketch_box = (-1.3, 1.3, -1.3, 1.3)
    default_psi = PendulumPsi()
    positive = ("mass", "length", "time_step")
    default_population = ("gravity=9.7,10,10.3",)

    strongest = 2.0
    fastest = 8.0

    def reset(self, key: jax.Array, psi: PendulumPsi) -> PendulumState:
        """Draws the angle uniformly from all angles, and the velocity uniformly from [−1, 1)."""
        angle, angle_dot = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return PendulumState(jnp.pi * angle, angle_dot)

    def step(
        self, key: jax.Array, state: PendulumState, action: jax.Array, psi: PendulumPsi
    ) -> Transition:
        """Moves as in Gymnasium: the reward is minus the cost of the state before the step.

        There is no terminal state.
        """
        torque = jnp.clip(action[0], -self.strongest, self.strongest)
        angle = (state.angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
        cost = angle**2 + 0.1 * state.angle_dot**2 + 0.001 * torque**2
        acceleration = (
            3 * psi.gravity / (2 * psi.length) * jnp.sin(state.angle)
            + 3 / (psi.mass * psi.length**2) * torque
        )
        angle_dot = jnp.clip(
            state.angle_dot + acceleration * psi.time_step, -self.fastest, self.fastest
        )
        moved = PendulumState(state.angle + angle_dot * psi.time_step, angle_dot)
        return Transition(moved, -cost, jnp.zeros(cost.shape, bool))

    def observe(self, state: PendulumState) -> jax.Array:
        """Returns the cosine and sine of the angle, and the velocity."""
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.angle_dot])

    def sketch(self, state: PendulumState) -> list[tuple[list[float], list[float]]]:
        """Returns the rod as one line."""
        angle = float(state.angle)
        return [([0.0, math.sin(angle)], [0.0, math.cos(angle)])]
