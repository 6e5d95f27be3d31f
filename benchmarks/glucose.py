r"""What simple treatments reach in the homes of the world `glucose`, beside which a learnt policy can be looked at.

    python benchmarks/glucose.py                # prints a table, and writes docs/results/glucose.json
    python benchmarks/glucose.py --runs RUN …   # with the averaged policies of runs in it

All play the same days in the same 90 homes (30 virtual patients, insulin as strong as theirs, and a fifth weaker and stronger).
Time in range is the share of time between 70 and 180 mg/dl. Basal and bolus knows every meal when it begins and doses for it by the
patient's own ratio, as people with diabetes do; the others, and the learnt policies, are not told of meals.
"""

import argparse
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config.problem import build
from pgc.local_training.worlds import physiology
from pgc.local_training.worlds.glucose import HIGH, LOW, MINUTES, WANTED, Glucose, risk
from pgc.local_training.worlds.population import Population
from pgc.runs.run import Run

DAYS, SEED = 20, 12
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "glucose.json"
world = Glucose()
HOMES = Population.parse(world, world.default_population).grid()


def days(rate):
    """Plays DAYS days in each home under a controller: rate(state, who, seen) in multiples of the basal rate.

    Returns score, time in range, time below it and mean risk of each home, (homes, 4)."""

    def day(key, psi):
        who = physiology.patient(*psi)

        def tick(state, key):
            moved = world.step(
                key, state, jnp.atleast_1d(rate(state, who, world.observe(state))), psi
            )
            return moved.state, (moved.state.body.plasma / who.Vg, moved.reward)

        first, *keys = jax.random.split(key, world.max_steps + 1)
        glucose, rewards = jax.lax.scan(tick, world.reset(first, psi), jnp.stack(keys))[1]
        inside = (glucose >= LOW) & (glucose <= HIGH)
        return jnp.stack(
            [rewards.sum(), 100 * inside.mean(), 100 * (glucose < LOW).mean(), risk(glucose).mean()]
        )

    keys = jax.random.split(jax.random.key(SEED), DAYS)
    psis = jax.tree.map(lambda *values: jnp.array(values), *HOMES)
    played = jax.vmap(lambda psi: jax.vmap(lambda key: day(key, psi))(keys).mean(axis=0))
    return np.asarray(jax.jit(played)(psis))


def schedule(amount):
    """Doses for an hour at the hours at which people usually eat, whatever they eat."""
    hours = jnp.array([7.5, 12.5, 18.5])

    def rate(state, who, seen):
        return 1.0 + amount * (jnp.abs(state.step * MINUTES / 60 - hours - 0.5) < 0.5).any()

    return rate


def basal_bolus(state, who, seen):
    """The basal rate, and when a meal is served, its carbohydrates divided by CR, at once; with more if glucose is high."""
    now = jnp.floor(state.times / MINUTES) == state.step
    grams = jnp.sum(jnp.where(now, state.sizes, 0.0)) * who.BW
    correction = jnp.where(
        state.reading > 150, (state.reading - WANTED) / (1700 / 50), 0.0
    )  # 50 units a day
    units = jnp.where(grams > 0, grams / who.CR + correction, 0.0)
    basal_units = who.basal * who.BW / 6000 * MINUTES  # in a step
    return 1.0 + units / basal_units


def learnt(run):
    """Plays the averaged policy of each trial of a run, and returns the mean over trials."""
    policy = build(run.config).training.policy

    def of(theta):
        params = policy.unflatten(jnp.asarray(theta))

        def rate(state, who, seen):
            return policy.actions.greedy(policy.apply(params, seen)[0])[0]

        return days(rate)

    return np.mean([of(theta) for theta in run.policies()["averaged"]], axis=0)


def row(name, homes):
    """Prints and returns a row."""
    score, inside, below, risky = homes.mean(axis=0)
    print(f"{name:<45} {score:8.1f} {inside:8.1f} {below:8.1f} {risky:8.2f}")
    return {
        "name": name,
        "score": float(score),
        "in range": float(inside),
        "below": float(below),
        "risk": float(risky),
    }


def main():
    """Prints the table and writes it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    print(f"{'':<45} {'score':>8} {'in range':>8} {'below':>8} {'risk':>8}")
    rows = [row("constant basal rate", days(lambda state, who, seen: 1.0))]
    doses = {amount: days(schedule(amount)) for amount in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)}
    best = max(doses, key=lambda amount: doses[amount][:, 0].mean())
    rows.append(row(f"the best fixed schedule (+{best:g} basal)", doses[best]))
    rows.append(row("basal and bolus, meals announced", days(basal_bolus)))
    for path in given.runs:
        run = Run.open(path)
        rows.append(
            row(f"learnt at ε = {run.config.epsilon:g} ({run.config.trials} trials)", learnt(run))
        )
    given.out.write_text(
        json.dumps(
            {
                "command": "python " + " ".join(sys.argv),
                "homes": len(HOMES),
                "days": DAYS,
                "rows": rows,
            },
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
