"""CartPole with every physical constant a field of ψ (Barto, Sutton, Anderson 1983; Gymnasium's
`CartPole-v1` physics).

Derived constants (total mass, pole mass × length) are computed at each step, never stored: a ψ with
another mass cannot leave them stale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Categorical


class CartPolePsi(NamedTuple):
    """ψ: the physics of one agent's cart and pole, in SI units."""

    gravity: float = 9.8
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    length: float = 0.5
    """Half of the pole's length."""
    force: float = 10.0
    time_step: float = 0.02


class CartPoleState(NamedTuple):
    """Cart position and velocity, pole angle from upright and its velocity."""

    x: jax.Array
    x_dot: jax.Array
    angle: jax.Array
    angle_dot: jax.Array


class CartPole(CompiledWorld):
    """Keep a pole upright on a cart by pushing left (0) or right (1); the score is the number of
    steps it stands.
    """

    name = "cartpole"
    observation_dim = 4
    actions = Categorical(2)
    max_steps = 200
    score_threshold = 195.0
    observation_bounds = ((-2.4, 2.4), (-3.0, 3.0), (-0.21, 0.21), (-3.0, 3.0))
    sketch_box = (-2.6, 2.6, -0.3, 1.4)
    default_psi = CartPolePsi()
    positive = ("cart_mass", "pole_mass", "length", "time_step")
    default_population = ("gravity=9.7,9.8,9.9",)

    x_limit = 2.4
    angle_limit = 12 * 2 * math.pi / 360

    def reset(self, key: jax.Array, psi: CartPolePsi) -> CartPoleState:
        """Draws each coordinate uniformly from [−0.05, 0.05)."""
        start = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return CartPoleState(*start)

    def step(
        self, key: jax.Array, state: CartPoleState, action: jax.Array, psi: CartPolePsi
    ) -> Transition:
        """Takes one step by the explicit Euler method, as in Gymnasium.

        The reward is 1 for every action, including the one that drops the pole.
        """
        x, x_dot, angle, angle_dot = state
        total_mass = psi.cart_mass + psi.pole_mass
        pole_mass_length = psi.pole_mass * psi.length
        push = jnp.where(action == 1, psi.force, -psi.force)
        cos, sin = jnp.cos(angle), jnp.sin(angle)

        pressure = (push + pole_mass_length * angle_dot**2 * sin) / total_mass
        angle_acc = (psi.gravity * sin - cos * pressure) / (
            psi.length * (4.0 / 3.0 - psi.pole_mass * cos**2 / total_mass)
        )
        x_acc = pressure - pole_mass_length * angle_acc * cos / total_mass

        moved = CartPoleState(
            x + psi.time_step * x_dot,
            x_dot + psi.time_step * x_acc,
            angle + psi.time_step * angle_dot,
            angle_dot + psi.time_step * angle_acc,
        )
        within = (jnp.abs(moved.x) <= self.x_limit) & (jnp.abs(moved.angle) <= self.angle_limit)
        terminated = ~within  # NaN is not within the limits, so it ends the episode
        return Transition(moved, jnp.ones_like(moved.x), terminated)

    def observe(self, state: CartPoleState) -> jax.Array:
        """Returns the whole state: CartPole is fully observed."""
        return jnp.stack(state)

    def sketch(self, state: CartPoleState) -> list[tuple[list[float], list[float]]]:
        """Returns the cart as a box, and the pole at its full default length."""
        x, angle, pole = float(state.x), float(state.angle), 2 * self.default_psi.length
        cart = ([x - 0.25, x + 0.25, x + 0.25, x - 0.25, x - 0.25], [0.0, 0.0, 0.2, 0.2, 0.0])
        return [cart, ([x, x + pole * math.sin(angle)], [0.2, 0.2 + pole * math.cos(angle)])]
