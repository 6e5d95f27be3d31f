"""Acrobot with every physical constant a field of ψ (Sutton 1996; Gymnasium's `Acrobot-v1`, its
"book" equations).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Categorical


class AcrobotPsi(NamedTuple):
    """ψ: the physics of one agent's robot, in SI units."""

    gravity: float = 9.8
    mass_1: float = 1.0
    mass_2: float = 1.0
    length_1: float = 1.0
    length_2: float = 1.0
    """The goal is computed as if both links had length 1, whatever their lengths are."""
    inertia: float = 1.0
    """The moment of inertia of each link."""
    torque: float = 1.0
    time_step: float = 0.2


class AcrobotState(NamedTuple):
    """Angle of the first link from hanging down, of the second from the first, and their
    velocities.
    """

    angle_1: jax.Array
    angle_2: jax.Array
    dot_1: jax.Array
    dot_2: jax.Array


class Acrobot(CompiledWorld):
    """Swing two links up by a torque of −1, 0 or +1 (actions 0, 1, 2) at the joint between them.

    The reward is −1 for every step until the goal is reached.
    """

    name = "acrobot"
    observation_dim = 6
    actions = Categorical(3)
    max_steps = 500
    score_threshold = -100.0
    observation_bounds = (
        (-1.0, 1.0),
        (-1.0, 1.0),
        (-1.0, 1.0),
        (-1.0, 1.0),
        (-4 * math.pi, 4 * math.pi),
        (-9 * math.pi, 9 * math.pi),
    )
    # velocities vary by ±2.3 and ±3.3 in the public play of gymnasium:Acrobot-v1
    usual_bounds = (*((-1.0, 1.0),) * 4, (-2.5, 2.5), (-3.5, 3.5))
    sketch_box = (-2.2, 2.2, -2.2, 2.2)
    default_psi = AcrobotPsi()
    positive = ("mass_1", "mass_2", "length_1", "length_2", "inertia", "time_step")
    default_population = ("gravity=9.5,9.8,10.1",)

    fastest_1 = 4 * math.pi
    fastest_2 = 9 * math.pi

    def reset(self, key: jax.Array, psi: AcrobotPsi) -> AcrobotState:
        """Draws each coordinate uniformly from [−0.1, 0.1)."""
        return AcrobotState(*jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1))

    def step(
        self, key: jax.Array, state: AcrobotState, action: jax.Array, psi: AcrobotPsi
    ) -> Transition:
        """Takes one step by the fourth-order Runge–Kutta method, as in Gymnasium.

        The reward is −1, and 0 for the step that reaches the goal.
        """
        torque, h = (action - 1.0) * psi.torque, psi.time_step

        def slope(s: AcrobotState) -> AcrobotState:
            return _dynamics(s, torque, psi)

        def ahead(by: float | jax.Array, k: AcrobotState) -> AcrobotState:
            return AcrobotState(
                *(value + by * change for value, change in zip(state, k, strict=True))
            )

        k1 = slope(state)
        k2 = slope(ahead(h / 2, k1))
        k3 = slope(ahead(h / 2, k2))
        k4 = slope(ahead(h, k3))
        moved = AcrobotState(
            *(
                s + h / 6 * (a + 2 * b + 2 * c + d)
                for s, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True)
            )
        )
        moved = AcrobotState(
            _wrap(moved.angle_1),
            _wrap(moved.angle_2),
            jnp.clip(moved.dot_1, -self.fastest_1, self.fastest_1),
            jnp.clip(moved.dot_2, -self.fastest_2, self.fastest_2),
        )
        height = -jnp.cos(moved.angle_1) - jnp.cos(moved.angle_1 + moved.angle_2)
        terminated = ~(height <= 1.0)  # NaN ends the episode as well
        return Transition(moved, jnp.where(terminated, 0.0, -1.0), terminated)

    def observe(self, state: AcrobotState) -> jax.Array:
        """Returns the cosine and sine of both angles, and the velocities."""
        a, b = state.angle_1, state.angle_2
        return jnp.stack([jnp.cos(a), jnp.sin(a), jnp.cos(b), jnp.sin(b), state.dot_1, state.dot_2])

    def sketch(self, state: AcrobotState) -> list[tuple[list[float], list[float]]]:
        """Returns the two links, and the height to reach."""
        a, b = float(state.angle_1), float(state.angle_1 + state.angle_2)
        elbow = (math.sin(a), -math.cos(a))
        tip = (elbow[0] + math.sin(b), elbow[1] - math.cos(b))
        return [([0.0, elbow[0], tip[0]], [0.0, elbow[1], tip[1]]), ([-2.2, 2.2], [1.0, 1.0])]


def _dynamics(s: AcrobotState, torque: jax.Array, psi: AcrobotPsi) -> AcrobotState:
    """Returns the velocities and accelerations (Sutton and Barto 1998, figure 11.5).

    Centres of mass are half-way along the links.
    """
    m1, m2, l1, g = psi.mass_1, psi.mass_2, psi.length_1, psi.gravity
    c1, c2, inertia = psi.length_1 / 2, psi.length_2 / 2, psi.inertia
    cos2, sin2 = jnp.cos(s.angle_2), jnp.sin(s.angle_2)
    d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cos2) + 2 * inertia
    d2 = m2 * (c2**2 + l1 * c2 * cos2) + inertia
    phi2 = m2 * c2 * g * jnp.sin(s.angle_1 + s.angle_2)  # cos(x − π/2) = sin(x)
    phi1 = (
        -m2 * l1 * c2 * s.dot_2**2 * sin2
        - 2 * m2 * l1 * c2 * s.dot_2 * s.dot_1 * sin2
        + (m1 * c1 + m2 * l1) * g * jnp.sin(s.angle_1)
        + phi2
    )
    acc_2 = (torque + d2 / d1 * phi1 - m2 * l1 * c2 * s.dot_1**2 * sin2 - phi2) / (
        m2 * c2**2 + inertia - d2**2 / d1
    )
    acc_1 = -(d2 * acc_2 + phi1) / d1
    return AcrobotState(s.dot_1, s.dot_2, acc_1, acc_2)


def _wrap(angle: jax.Array) -> jax.Array:
    """Returns the angle in [−π, π)."""
    return (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
