"""Glucose and insulin in a person with type 1 diabetes: the equations of the UVA/Padova simulator
(Dalla Man, Rizza and Cobelli 2007; Kovatchev et al. 2009), with its 30 virtual patients.

It is a model for research. Nobody should be treated by it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

TABLE = Path(__file__).parent / "virtual_patients.csv"
EATING = 5.0
"""Grams of carbohydrate that are eaten in a minute."""


class Patient(NamedTuple):
    """One person's parameters, with the names of the table. They are anybody's secret."""

    CR: Any
    """Grams of carbohydrate that one unit of insulin covers: what a clinic tells the patient."""
    BW: Any
    """Body weight in kg."""
    kabs: Any
    kmax: Any
    kmin: Any
    b: Any
    d: Any
    Vg: Any
    Vi: Any
    Vmx: Any
    Km0: Any
    k2: Any
    k1: Any
    p2u: Any
    m1: Any
    m2: Any
    m4: Any
    m30: Any
    Ib: Any
    ki: Any
    kp1: Any
    kp2: Any
    kp3: Any
    f: Any
    Gpb: Any
    Gtb: Any
    Ipb: Any
    Ilb: Any
    ke1: Any
    ke2: Any
    Fsnc: Any
    Vm0: Any
    kd: Any
    ksc: Any
    ka1: Any
    ka2: Any
    u2ss: Any
    isc1ss: Any
    isc2ss: Any

    @property
    def basal(self) -> Any:
        """The rate of insulin, in pmol/kg/min, that keeps glucose where it is without meals."""
        return self.u2ss


class Body(NamedTuple):
    """What changes: masses per kg of body weight (of food: in mg)."""

    solid: jax.Array
    """Food in the stomach, solid, and then liquid; and in the gut."""
    liquid: jax.Array
    gut: jax.Array
    plasma: jax.Array
    """Glucose in plasma, and in tissue, mg/kg."""
    tissue: jax.Array
    insulin: jax.Array
    """Insulin in plasma, pmol/kg."""
    action: jax.Array
    """Insulin's action on the use of glucose, and, by two delays, on its production."""
    delay: jax.Array
    delayed: jax.Array
    liver: jax.Array
    depot: jax.Array
    """Insulin under the skin, in two compartments."""
    depot_2: jax.Array
    skin: jax.Array
    """Glucose under the skin, where the sensor is, mg/kg."""


class Meal(NamedTuple):
    """What the stomach remembers of the last meal."""

    planned: jax.Array
    """Grams that are still on the table."""
    eating: jax.Array
    """Whether something was eaten in the last minute."""
    before: jax.Array
    """mg in the stomach when the meal began."""
    eaten: jax.Array
    """Grams of it that were eaten."""


@functools.cache
def table() -> np.ndarray:
    """Returns the parameters of all patients, (39 parameters, 30 patients)."""
    with TABLE.open(encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    names = lines[0].strip().split(",")
    assert tuple(names[1:]) == Patient._fields
    return np.array([[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]]).T


def patient(number: Any, sensitivity: Any) -> Patient:
    """Returns a patient of the table by number, 0 to 29; insulin acts `sensitivity` times as
    strongly on the use and on the production of glucose.
    """
    rows = table()
    number = jnp.clip(jnp.floor(number), 0, rows.shape[1] - 1).astype(jnp.int32)
    one = Patient(*(jnp.asarray(row)[number] for row in rows))
    return one._replace(Vmx=one.Vmx * sensitivity, kp3=one.kp3 * sensitivity)


def at_rest(who: Patient) -> Body:
    """Returns a body that has fasted, at the basal rate of insulin."""
    nothing = jnp.zeros_like(jnp.asarray(who.Gpb))
    return Body(
        nothing, nothing, nothing, who.Gpb, who.Gtb, who.Ipb, nothing, who.Ib, who.Ib, who.Ilb,
        who.isc1ss, who.isc2ss, who.Gpb,
    )  # fmt: skip


def no_meal() -> Meal:
    """Returns an empty table."""
    zero = jnp.zeros(())
    return Meal(zero, jnp.zeros((), bool), zero, zero)


def minute(
    who: Patient, body: Body, meal: Meal, insulin: jax.Array, served: jax.Array
) -> tuple[Body, Meal]:
    """Returns body and meal a minute later.

    `insulin` is the pump's rate in pmol/kg/min; `served` are grams that are put on the table now.
    The equations are integrated by one step of Runge and Kutta's method of fourth order.
    """
    planned = meal.planned + served
    bite = jnp.minimum(EATING, planned)
    begins = (bite > 0) & ~meal.eating
    before = jnp.where(begins, body.solid + body.liquid, meal.before)
    eaten = jnp.where(begins, 0.0, meal.eaten)
    eaten = eaten + bite
    stomach = before + 1000 * eaten

    def slope(at: Body) -> Body:
        return _slope(who, at, insulin, 1000 * bite, stomach)

    def along(direction: Body, far: float) -> Body:
        pairs = zip(body, direction, strict=True)
        return Body(*(value + far * change for value, change in pairs))

    first = slope(body)
    second = slope(along(first, 0.5))
    third = slope(along(second, 0.5))
    fourth = slope(along(third, 1.0))
    after = jax.tree.map(
        lambda value, a, b, c, d: value + (a + 2 * b + 2 * c + d) / 6,
        body, first, second, third, fourth,
    )  # fmt: skip
    return after, Meal(planned - bite, bite > 0, before, eaten)


def _slope(who: Patient, at: Body, insulin: jax.Array, food: jax.Array, stomach: jax.Array) -> Body:
    """Returns the derivatives of a body by minutes, with food in mg/min."""
    # The stomach empties fast when it is full, slowly in between, and fast again when nearly empty.
    full = jnp.maximum(stomach, 1e-6)
    rise, fall = 5 / (2 * full * (1 - who.b)), 5 / (2 * full * who.d)
    inside = at.solid + at.liquid
    emptying = who.kmin + (who.kmax - who.kmin) / 2 * (
        jnp.tanh(rise * (inside - who.b * stomach))
        - jnp.tanh(fall * (inside - who.d * stomach))
        + 2
    )
    emptying = jnp.where(stomach > 0, emptying, who.kmax)
    appears = who.f * who.kabs * at.gut / who.BW
    produced = jnp.maximum(who.kp1 - who.kp2 * at.plasma - who.kp3 * at.delayed, 0.0)
    excreted = jnp.maximum(who.ke1 * (at.plasma - who.ke2), 0.0)
    used = (who.Vm0 + who.Vmx * at.action) * at.tissue / (who.Km0 + at.tissue)
    concentration = at.insulin / who.Vi

    def kept(mass: jax.Array, change: jax.Array) -> jax.Array:
        return jnp.where(mass >= 0, change, 0.0)

    return Body(
        solid=food - who.kmax * at.solid,
        liquid=who.kmax * at.solid - emptying * at.liquid,
        gut=emptying * at.liquid - who.kabs * at.gut,
        plasma=kept(
            at.plasma,
            produced + appears - who.Fsnc - excreted - who.k1 * at.plasma + who.k2 * at.tissue,
        ),
        tissue=kept(at.tissue, who.k1 * at.plasma - who.k2 * at.tissue - used),
        insulin=kept(
            at.insulin,
            who.m1 * at.liver - (who.m2 + who.m4) * at.insulin + who.ka1 * at.depot
            + who.ka2 * at.depot_2,
        ),
        action=who.p2u * (concentration - who.Ib - at.action),
        delay=who.ki * (concentration - at.delay),
        delayed=who.ki * (at.delay - at.delayed),
        liver=kept(at.liver, who.m2 * at.insulin - (who.m1 + who.m30) * at.liver),
        depot=kept(at.depot, insulin - (who.ka1 + who.kd) * at.depot),
        depot_2=kept(at.depot_2, who.kd * at.depot - who.ka2 * at.depot_2),
        skin=kept(at.skin, who.ksc * (at.plasma - at.skin)),
    )  # fmt: skip
