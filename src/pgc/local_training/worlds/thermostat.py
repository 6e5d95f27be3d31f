"""Thermostat: one day of heating a home whose insulation, heat capacity and hours of presence are
private.

The home is one thermal resistance and one capacity (a "1R1C" model): with outdoor temperature T_o
and heating power P, the indoor temperature falls exponentially towards T_o + R·P with the time
constant R·C. A step holds the power for ten minutes, and its temperature is exact, not integrated.
The weather is public. When somebody is at home is what a burglar would like to know.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Gaussian


class ThermostatPsi(NamedTuple):
    """ψ: one home, and the hours of the day between which nobody is there."""

    resistance: float = 5.0
    """R, in K/kW: how many degrees warmer than outdoors one kW keeps it."""
    capacity: float = 1.0
    """C, in kWh/K."""
    leaves: float = 8.0
    returns: float = 17.0


class ThermostatState(NamedTuple):
    """Temperatures in °C, and the time of day."""

    indoor: jax.Array
    mean_outdoor: jax.Array
    """The mean temperature of this day."""
    step: jax.Array
    """Steps since midnight: a sum of hours would be rounded."""
    present: jax.Array
    """1 while somebody is at home, else 0: what the home's own sensor says."""


class Thermostat(CompiledWorld):
    """Choose the heating power: warm while somebody is at home, cheap while nobody is.

    The reward is minus the cost of ten minutes: energy, and discomfort, which grows with the square
    of the distance from 20 °C and counts only while somebody is at home.
    """

    name = "thermostat"
    observation_dim = 5
    actions = Gaussian((0.0,), (8.0,))
    max_steps = 144
    score_threshold = -35.0
    observation_bounds = ((-2.0, 2.0), (-10.0, 10.0), (-1.0, 1.0), (-1.0, 1.0), (-1.0, 1.0))
    offset = True  # presence is never 0
    sketch_box = (-1.2, 1.2, -0.1, 2.2)
    default_psi = ThermostatPsi()
    positive = ("resistance", "capacity")
    default_population = ("resistance=3:7", "capacity=0.5:1.5", "leaves=6.5:10", "returns=14:20")

    strongest = 8.0
    """The heating's power, in kW."""
    wanted = 20.0
    steps_an_hour = 6
    price = 0.4
    """Cost of a kWh."""
    discomfort = 0.2
    """Cost of an hour at one degree from what is wanted."""

    def reset(self, key: jax.Array, psi: ThermostatPsi) -> ThermostatState:
        """Draws the day's weather and the temperature at midnight."""
        weather, start = jax.random.uniform(key, (2,))
        return ThermostatState(
            indoor=18.0 + 3.0 * start,
            mean_outdoor=-2.0 + 12.0 * weather,
            step=jnp.zeros((), jnp.int32),
            present=jnp.ones(()),
        )

    def step(
        self, key: jax.Array, state: ThermostatState, action: jax.Array, psi: ThermostatPsi
    ) -> Transition:
        """Heats for ten minutes. There is no terminal state."""
        power = jnp.clip(action[0], 0.0, self.strongest)
        towards = _outdoor(state) + psi.resistance * power
        kept = jnp.exp(-1 / (self.steps_an_hour * psi.resistance * psi.capacity))
        indoor = towards + (state.indoor - towards) * kept
        cost = self.price * power + self.discomfort * state.present * (indoor - self.wanted) ** 2
        hour = (state.step + 1) / self.steps_an_hour
        away = (hour >= psi.leaves) & (hour < psi.returns)
        after = ThermostatState(
            indoor, state.mean_outdoor, state.step + 1, jnp.where(away, 0.0, 1.0)
        )
        return Transition(after, -cost / self.steps_an_hour, jnp.zeros((), bool))

    def observe(self, state: ThermostatState) -> jax.Array:
        """Returns how warm it is indoors and outdoors, the hour as an angle, and who is there.

        Temperatures are differences, from what is wanted and from the mean of the year; presence is
        1 or −1.
        """
        angle = 2 * jnp.pi * _hour(state) / 24
        return jnp.stack(
            [
                state.indoor - self.wanted,
                _outdoor(state) - 4.0,
                jnp.sin(angle),
                jnp.cos(angle),
                2 * state.present - 1,
            ]
        )

    def sketch(self, state: ThermostatState) -> list[tuple[list[float], list[float]]]:
        """Returns a house with a thermometer, a mark at what is wanted, and whoever is there."""
        warm, wanted = (0.1 + max(0.0, float(t)) / 25 for t in (state.indoor, self.wanted))
        lines = [
            ([-1.0, -1.0, 0.0, 1.0, 1.0, -1.0], [0.0, 1.4, 2.1, 1.4, 0.0, 0.0]),
            ([-0.4, -0.4], [0.1, warm]),
            ([-0.6, -0.2], [wanted, wanted]),
        ]
        person = [
            ([0.3, 0.5, 0.7], [0.0, 0.3, 0.0]),
            ([0.5, 0.5], [0.3, 0.6]),
            ([0.3, 0.7], [0.45, 0.45]),
        ]
        return lines + person if float(state.present) > 0 else lines


def _hour(state: ThermostatState) -> jax.Array:
    """Returns the hour of the day."""
    return state.step / Thermostat.steps_an_hour


def _outdoor(state: ThermostatState) -> jax.Array:
    """Returns the temperature outdoors, which is highest at three in the afternoon."""
    return state.mean_outdoor + 4.0 * jnp.cos(2 * jnp.pi * (_hour(state) - 15) / 24)
