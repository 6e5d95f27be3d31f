"""Glucose: a day of insulin for a person with type 1 diabetes, whose physiology is private.

A pump doses insulin every five minutes, and a sensor under the skin measures glucose. Meals are not
announced. It is a simulation for research (`physiology.py`); nobody should be treated by it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from pgc.local_training.worlds import physiology
from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.local_training.worlds.physiology import Body, Meal, Patient
from pgc.spaces import Gaussian

MINUTES = 5
"""Minutes in a step."""
LOW, HIGH = 70.0, 180.0
"""The range, in mg/dl, in which clinicians want glucose to be (Battelino et al. 2019)."""
WANTED = 120.0
FADES = 90.0
"""Minutes after which a pump counts a dose as used up to 1/e."""
SENSOR = 5.0
"""The standard deviation of a reading, mg/dl."""


class GlucosePsi(NamedTuple):
    """ψ: one person, whose body is nobody else's business."""

    patient: float = 10.0
    """The virtual patient: 0 to 9 are adolescents, 10 to 19 adults, 20 to 29 children."""
    sensitivity: float = 1.0
    """How strongly insulin acts, in multiples of that patient's."""


class GlucoseState(NamedTuple):
    """A person and a pump."""

    body: Body
    meal: Meal
    step: jax.Array
    """Steps since midnight."""
    times: jax.Array
    """The minutes at which meals are served, (3,)."""
    sizes: jax.Array
    """Their carbohydrates in g for each kg of body weight, (3,)."""
    reading: jax.Array
    """What the sensor says now, and what it said a step before, mg/dl."""
    before: jax.Array
    on_board: jax.Array
    """What the pump gave beyond the basal rate and counts as not used up, in hours of that rate."""


class Glucose(CompiledWorld):
    """Choose the rate of insulin: glucose should stay in range through three meals.

    An action is a multiple of the person's own basal rate, which their clinic set. The score is the
    time in range in percent, minus the mean risk index (Kovatchev et al. 1997), which is 10 at
    66 and at 192 mg/dl and grows beyond.
    """

    name = "glucose"
    observation_dim = 5
    actions = Gaussian((-4.0,), (6.0,))
    max_steps = 24 * 60 // MINUTES
    score_threshold = 75.0
    observation_bounds = (
        (WANTED - 100.0, WANTED + 100.0), (-15.0, 15.0), (-8.0, 8.0), (-1.0, 1.0), (-1.0, 1.0),
    )  # fmt: skip
    offset = True
    default_psi = GlucosePsi()
    positive = ("sensitivity",)
    default_population = (
        "patient=" + ",".join(str(number) for number in range(30)),
        "sensitivity=0.8:1.2",
    )

    def reset(self, key: jax.Array, psi: GlucosePsi) -> GlucoseState:
        """Draws the day's meals: breakfast, lunch and dinner, each within three hours."""
        who = physiology.patient(*psi)
        drawn = jax.random.uniform(key, (2, 3))
        body = physiology.at_rest(who)
        reading = body.skin / who.Vg
        return GlucoseState(
            body=body,
            meal=physiology.no_meal(),
            step=jnp.zeros((), jnp.int32),
            times=60 * (jnp.array([6.0, 11.0, 17.0]) + 3 * drawn[0]),
            sizes=0.3 + 0.6 * drawn[1],
            reading=reading,
            before=reading,
            on_board=jnp.zeros(()),
        )

    def step(
        self, key: jax.Array, state: GlucoseState, action: jax.Array, psi: GlucosePsi
    ) -> Transition:
        """Doses for five minutes. There is no terminal state."""
        who = physiology.patient(*psi)
        rate = jnp.maximum(action[0], 0.0)

        def pass_minute(number: jax.Array, now: tuple[Body, Meal]) -> tuple[Body, Meal]:
            served = self._served(who, state, MINUTES * state.step + number)
            return physiology.minute(who, *now, rate * who.basal, served)

        body, meal = jax.lax.fori_loop(0, MINUTES, pass_minute, (state.body, state.meal))
        glucose = body.plasma / who.Vg
        in_range = (glucose >= LOW) & (glucose <= HIGH)
        reward = (100.0 * in_range - risk(glucose)) / self.max_steps
        fades = jnp.exp(-MINUTES / FADES)
        after = GlucoseState(
            body=body,
            meal=meal,
            step=state.step + 1,
            times=state.times,
            sizes=state.sizes,
            reading=body.skin / who.Vg + SENSOR * jax.random.normal(key),
            before=state.reading,
            on_board=fades * state.on_board + (rate - 1.0) * MINUTES / 60,
        )
        return Transition(after, reward, jnp.zeros((), bool))

    def _served(self, who: Patient, state: GlucoseState, minute: jax.Array) -> jax.Array:
        """Returns the grams that are served in this minute of the day."""
        now = jnp.floor(state.times) == minute
        grams: jax.Array = jnp.sum(jnp.where(now, state.sizes, 0.0)) * who.BW
        return grams

    def observe(self, state: GlucoseState) -> jax.Array:
        """Returns the reading, its change since the last one, insulin on board, and the hour."""
        angle = 2 * jnp.pi * state.step / self.max_steps
        change = state.reading - state.before
        return jnp.stack([state.reading, change, state.on_board, jnp.sin(angle), jnp.cos(angle)])


def risk(glucose: jax.Array) -> jax.Array:
    """Returns the risk of a concentration in mg/dl: 0 at 112, and 100 at 20 and at 600."""
    scaled = 1.509 * (jnp.log(jnp.clip(glucose, 20.0, 600.0)) ** 1.084 - 5.381)
    return 10 * scaled**2
