"""What hostile reports do when they choose the moment: the table of bursts in docs/threat-model.md.

    python benchmarks/bursts.py [--trials 8] [--reports 4000] --out docs/results/bursts.json      # ten minutes on two cores; two on a GPU

CartPole at ε = 1. Honest agents play and randomise as in `pgc train`, in versions of |B| reports. In the moments of an attack the
hostile ones know θ and each other, do not randomise, and send a report straight towards θ − θ_bad, as long as the mechanism allows
(`worst_length`): θ_bad is the mirror image of a good policy, which falls over as fast as it can. Scores are of the greedy policy,
20 episodes at each of three gravities, at most 200, means over trials with seeds 0, 1, 2, …:

    worst      of the offered policy θ, looked at every 50 reports from the first hostile one on
    end        of the offered policy after the last report
    averaged   of the averaged policy after the last report

`before`: a step that does not shrink, and reports of any length. `now`: the defaults.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import configure
from pgc.config.problem import Problem, build
from pgc.deliver.initial import initial_theta
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.engines.evaluation import greedy_scores
from pgc.local_training.definition import draw_psi, play
from pgc.numerics.randomness import Address, trial_seed
from pgc.randomise.exact.lattice import LARGEST
from pgc.wire.values import Delivery

MECHANISMS = ("index", "duchi", "prs-sign", "prs", "laplace")
LOOK = 50
"""Reports between two looks at the offered policy."""


class Attack(NamedTuple):
    """Hostile reports: each from `start` on is hostile with probability `share`, `count` of them are looked at."""

    name: str
    start: int
    count: int
    share: float = 1.0


def attacks(reports: int) -> list[Attack]:
    """5 % of all reports at different moments, and others."""
    some = reports // 20
    return [
        Attack("none", reports, 0),
        Attack(f"the last {some // 2}", reports - some // 2, some // 2),
        Attack(f"the last {some}", reports - some, some),
        *(Attack(f"{some} from {at:,} on", at, some) for at in (2000, 1000, 500, 200)),
        Attack("5 % so far, at 500", 500, 26),
        Attack("10 % from 3,000 on", 3000, reports - 3000, 0.1),
    ]


def worst_length(problem: Problem) -> float:
    """The L2 norm of the longest valid report: for `laplace` of what its field holds, else of 20,000 honest ones."""
    mechanism = problem.randomiser.mechanism
    if mechanism.name == "laplace":
        return LARGEST / 2**20 * mechanism.scale * math.sqrt(mechanism.dim)

    def length(key):
        public, secret = jax.random.split(key)
        report = mechanism.randomize(
            jnp.zeros(mechanism.dim),
            jax.random.bits(public, (mechanism.public_words,), jnp.uint32),
            jax.random.bits(secret, (mechanism.secret_words,), jnp.uint32),
        )
        return jnp.linalg.norm(report)

    return float(jnp.max(jax.jit(jax.vmap(length))(jax.random.split(jax.random.key(0), 20_000))))


def scores(problem: Problem, bad: np.ndarray, all_attacks: list[Attack], trials: int, reports: int):
    """Offered (attacks, trials, looks) and averaged (attacks, trials) scores."""
    training, aggregator = problem.training, problem.aggregator
    mechanism, size = problem.randomiser.mechanism, int(aggregator.buffer_size)
    longest, aim_at = worst_length(problem), jnp.asarray(bad)

    def honest(seed, theta, basis, n, key):
        at = Address(seed, n, n)
        psi = draw_psi(at, training.population)
        z = play(training, Delivery(theta, basis), psi, at, jnp.float32(0)).coordinates
        public, secret = jax.random.split(key)
        return mechanism.randomize(
            z,
            jax.random.bits(public, (mechanism.public_words,), jnp.uint32),
            jax.random.bits(secret, (mechanism.secret_words,), jnp.uint32),
        )

    def version(state, v, seed, start, count, share):
        """One version of one lane: |B| reports."""
        numbers = v * size + jnp.arange(size)
        keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(seed[0]), n))(numbers)
        found = jax.vmap(honest, (None, None, None, 0, 0))(
            seed, state.theta, state.basis, numbers, keys
        )
        aim = state.basis.T @ (state.theta - aim_at)
        aim = longest * aim / jnp.maximum(jnp.linalg.norm(aim), 1e-9)
        luck = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, 7)))(keys)
        hostile = (numbers >= start) & (numbers < start + count) & (luck < share)
        sent = jnp.where(hostile[:, None], aim, found) @ state.basis.T
        # `aggregator.accept` of each of them, written out: only the last one fills the buffer
        for report in sent[:-1]:
            state = aggregator.average(aggregator.add(state, report, state.version))
        updated = aggregator.update(aggregator.add(state, sent[-1], state.version))
        return problem.deliverer.with_basis(aggregator.average(updated))

    lanes = jax.vmap(version, (0, None, 0, 0, 0, 0))
    seeds = jnp.stack([trial_seed(t, 1) for t in range(trials)] * len(all_attacks))
    numbers = [
        jnp.repeat(jnp.asarray([float(a[i]) for a in all_attacks]), trials) for i in (1, 2, 3)
    ]

    @jax.jit
    def versions(state, which):
        return jax.lax.scan(lambda s, v: (lanes(s, v, seeds, *numbers), None), state, which)[0]

    thetas = [
        initial_theta(trial_seed(t, 0), training.policy, problem.initial) for t in range(trials)
    ]
    state = jax.vmap(problem.start)(jnp.stack(thetas * len(all_attacks)))

    def greedy(which):
        found = greedy_scores(
            training, np.asarray(which), training.population.grid(), episodes=20, seed=0
        )
        return found.mean(axis=1).reshape(len(all_attacks), trials)

    looks = []
    for first in range(0, reports // size, LOOK // size):
        state = versions(state, jnp.arange(first, first + LOOK // size))
        looks.append(greedy(state.theta))
    return np.stack(looks, axis=-1), greedy(state.average)


def mirrored(policy, good):
    """A policy that does the opposite of a good one: its head with the other sign, three times as sure."""
    places = jax.tree.leaves(policy.unflatten(np.arange(policy.dim, dtype=np.float32)))
    bad = np.array(good, np.float32)
    bad[
        np.asarray(places[-2], int).ravel()
    ] *= -3  # the policy's head; the last one is the critic's
    return bad


def good_policy():
    """Trained without privacy."""
    simulation = CompiledSimulation(build(configure(epsilon=float("inf"), submissions=2000)))
    while simulation.running:
        for _ in simulation.advance():
            pass
    return simulation.aggregator_field("average")[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--reports", type=int, default=4000)
    parser.add_argument("--mechanisms", nargs="+", default=MECHANISMS)
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    args = parser.parse_args()
    good, rows = good_policy(), []
    for mechanism in args.mechanisms:
        for rules, settings in (
            ("before", {"step_decay": math.inf, "report_norm": math.inf}),
            ("now", {}),
        ):
            begun = time.monotonic()
            config = configure(
                mechanism=mechanism, epsilon=1.0, submissions=args.reports, **settings
            )
            problem, planned = build(config), attacks(args.reports)
            bad = mirrored(problem.training.policy, good)
            offered, averaged = scores(problem, bad, planned, args.trials, args.reports)
            for attack, seen, mean in zip(planned, offered, averaged, strict=True):
                after = seen[:, min(attack.start // LOOK, seen.shape[1] - 1) :]
                rows.append(
                    {
                        "mechanism": mechanism,
                        "rules": rules,
                        "attack": attack.name,
                        "worst": round(float(after.mean(axis=0).min()), 1),
                        "end": round(float(seen[:, -1].mean()), 1),
                        "averaged": round(float(mean.mean()), 1),
                    }
                )
                print(rows[-1], file=sys.stderr, flush=True)
            print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            if args.out:
                result = {"epsilon": 1.0, "trials": args.trials, "reports": args.reports}
                args.out.write_text(
                    json.dumps(result | {"rows": rows}, indent=1, ensure_ascii=False) + "\n"
                )


if __name__ == "__main__":
    main()
