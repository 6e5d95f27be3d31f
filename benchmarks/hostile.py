"""What hostile devices can do with valid reports, and what trimming or bounding saves: the table of docs/threat-model.md.

    python benchmarks/hostile.py [--trials 8] [--reports 4000] > docs/results/hostile.json

Each trial trains one CartPole policy as the service does: offers, bytes of reports and `pgc.service.model.Model`, without the
network. A share of the devices is hostile. They know θ, the code of their own offer and each other, and send the valid report
that is the most harmful one, without randomising anything:

    steer      the report nearest to θ − θ_bad, so that θ goes where they want it: to the mirror image of a good policy, which
               falls over as fast as it can
    reverse    the report nearest to the opposite of the gradient that sixteen honest devices find together

With `laplace` the most harmful report is the largest number that its field holds. Scores are of the averaged policy (greedy, 100
episodes at each of the three gravities, at most 200), with a 95 % interval over trials, whose seeds are 0, 1, 2, …
"""

import argparse
import json
import math
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import configure
from pgc.config.problem import build
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.engines.evaluation import greedy_scores
from pgc.local_training.definition import draw_psi, play
from pgc.numerics.randomness import Address, trial_seed
from pgc.randomise.exact.lattice import LARGEST
from pgc.randomise.release import decode
from pgc.randomise.report import draw_report
from pgc.service.model import Model
from pgc.wire import Offer
from pgc.wire.report import split
from pgc.wire.values import Delivery

SPIES = 16
"""Honest devices whose gradients a reversing attacker knows, anew for each version."""
DEFENCES = {
    "index": {
        "none": {},
        "trim 0.2": {"trim": 0.2},
        "|B| = 50, trim 0.2": {"buffer_size": 50, "trim": 0.2},
    },
    "laplace": {"none": {}, "report_norm 10": {"report_norm": 10.0}},
}
OF_THEN = {"epsilon": 1.0, "step_decay": math.inf, "report_norm": math.inf}
"""The defaults when these defences were compared; benchmarks/bursts.py measures those of today."""


def scores(settings, attack, hostile, good, trials, reports):
    """Of the averaged policy of each trial."""
    models = [
        Model("hostile", configure(submissions=reports, seed=seed, **(OF_THEN | settings)))
        for seed in range(trials)
    ]
    training, size = models[0].training, models[0].config.buffer_size
    rngs, bad = (
        [np.random.default_rng([seed, 7]) for seed in range(trials)],
        mirrored(training.policy, good),
    )
    lanes = size + (SPIES if attack == "reverse" else 0)

    @jax.jit
    def gradients(seeds, thetas, bases, first):
        """(trials, lanes, k): what honest devices find, each in its own world."""

        def one(seed, theta, basis, n):
            at = Address(seed, n, n)
            psi = draw_psi(at, training.population)
            return play(training, Delivery(theta, basis), psi, at, jnp.float32(0)).coordinates

        each = jax.vmap(one, (None, None, None, 0))
        return jax.vmap(each, (0, 0, 0, None))(seeds, thetas, bases, first + jnp.arange(lanes))

    seeds = jnp.stack([trial_seed(seed, 1) for seed in range(trials)])
    for version in range(reports // size):
        templates = [model.published.template for model in models]
        thetas = jnp.stack([t.theta for t in templates])
        bases = None if templates[0].basis is None else jnp.stack([t.basis for t in templates])
        found = np.asarray(gradients(seeds, thetas, bases, version * lanes), float)
        for model, template, rng, mine in zip(models, templates, rngs, found, strict=True):
            aim = coordinates(template.basis, template.theta - bad)
            if attack == "reverse":
                aim = -sum(g / max(np.linalg.norm(g), 1e-12) for g in mine[size:])
            estimates = []
            for gradient in mine[:size]:
                offer = Offer.decode(template.renumbered(int(rng.integers(2**63)), 0))
                payload = (
                    worst(offer, aim)
                    if rng.random() < hostile
                    else split(draw_report(offer, gradient, None))[2]
                )
                estimates.append(model.estimate(offer.offer_id, payload, offer.basis))
            done = 0
            while done < size:
                done += model.accept(estimates[done:], [template.policy_version] * (size - done))
            model.published = model.as_published(model.state)
    averaged = np.stack([np.asarray(model.state.average, np.float32) for model in models])
    return greedy_scores(training, averaged, training.population.grid(), episodes=100, seed=0).mean(
        axis=1
    )


def coordinates(basis, vector):
    return vector if basis is None else basis.T @ vector


def mirrored(policy, good):
    """A policy that does the opposite of a good one: its head with the other sign, three times as sure."""
    places = jax.tree.leaves(policy.unflatten(np.arange(policy.dim, dtype=np.float32)))
    bad = np.array(good, np.float32)
    bad[
        np.asarray(places[-2], int).ravel()
    ] *= -3  # the policy's head; the last one is the critic's
    return bad


def worst(offer, aim):
    """The payload whose decoded report points most nearly to `aim`."""
    query = offer.query
    if query.name == "laplace":
        return query.encode_code([LARGEST if a > 0 else -LARGEST for a in aim], None)
    reach = [decode(query.mechanism, code, offer.public_seed) @ aim for code in range(query.size)]
    return query.encode_code(int(np.argmax(reach)), None)


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
    args = parser.parse_args()
    good, rows = good_policy(), []
    for mechanism, table in DEFENCES.items():
        for defence, settings in table.items():
            for hostile in (0.0, 0.05, 0.1, 0.2):
                for attack in (
                    ("steer", "reverse") if hostile and mechanism == "index" else ("steer",)
                ):
                    begun = time.monotonic()
                    found = scores(
                        {"mechanism": mechanism, **settings},
                        attack,
                        hostile,
                        good,
                        args.trials,
                        args.reports,
                    )
                    half = 1.96 * found.std(ddof=1) / np.sqrt(len(found))
                    rows.append(
                        {
                            "mechanism": mechanism,
                            "defence": defence,
                            "attack": attack,
                            "hostile": hostile,
                        }
                    )
                    rows[-1].update(
                        score=round(float(found.mean()), 1), interval=round(float(half), 1)
                    )
                    print(rows[-1], f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    result = {"epsilon": 1.0, "trials": args.trials, "reports": args.reports, "rows": rows}
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
