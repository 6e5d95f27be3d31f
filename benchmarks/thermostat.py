"""What simple controllers reach in the homes of the world `thermostat`, to compare learnt policies with.

python benchmarks/thermostat.py

It prints the mean score of a day over the homes in which `pgc train` and `pgc evaluate` score a policy, 100 days each.
"""

import jax
import jax.numpy as jnp
import numpy as np

from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.thermostat import Thermostat

WORLD = Thermostat()
GAIN = 4.0
"""kW for each degree below what a controller wants, around 3.2 kW, which keeps the usual home at 20 °C at 4 °C outdoors."""


def towards(wanted):
    """A controller that heats towards a temperature, which is a function of state and ψ."""

    def power(state, psi):
        return jnp.clip(3.2 + GAIN * (wanted(state, psi) - state.indoor), 0.0, WORLD.strongest)

    return power


def score(controller, homes, days=100):
    """The mean over homes and days of what a controller scores in a day."""

    def day(key, psi):
        def tick(state, _):
            moved = WORLD.step(key, state, controller(state, psi)[None], psi)
            return moved.state, moved.reward

        return jax.lax.scan(tick, WORLD.reset(key, psi), None, length=WORLD.max_steps)[1].sum()

    keys = jax.random.split(jax.random.key(0), days)
    psis = jax.tree.map(lambda *values: jnp.asarray(values, jnp.float32), *homes)
    each = jax.vmap(jax.vmap(day, (0, None)), (None, 0))
    return float(jax.jit(each)(keys, psis).mean())


def main():
    """Print the best of each kind."""
    homes = Population.parse(WORLD, WORLD.default_population).grid()
    constant = [score(lambda s, p, c=c: jnp.asarray(c), homes) for c in np.arange(0, 6, 0.25)]
    schedule = [
        score(towards(lambda s, p, a=a, b=b, low=low: jnp.where((s.step >= 6 * a) & (s.step < 6 * b), 20.0, low)), homes)
        for a in (4, 5, 6)
        for b in (21, 22, 23)
        for low in (15, 17, 18, 19)
    ]  # fmt: skip
    sensor = [
        score(towards(lambda s, p, low=low: jnp.where(s.present > 0, 20.0, low)), homes)
        for low in (10, 12, 14, 16, 18)
    ]
    for name, found in (
        ("the best constant power", max(constant)),
        ("the best fixed schedule", max(schedule)),
        ("20 °C all day", score(towards(lambda s, p: 20.0), homes)),
        ("20 °C while somebody is at home, the best temperature else", max(sensor)),
    ):
        print(f"{name:60} {found:8.1f}")
    print(f"{len(homes)} homes, 100 days each")


if __name__ == "__main__":
    main()
