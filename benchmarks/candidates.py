"""Reports in the space of candidates: is it worth more than reports of a direction? Writes a table as JSON.

python benchmarks/candidates.py --out docs/results/candidates.json

A version publishes K candidates (CMA-ES around the mean, from a public seed). An agent plays each of them in its own world, and reports how
they rank: the ranks, centred, are a vector with K − 1 degrees of freedom, which `index` randomises. The mean of a generation's reports takes
the place of the scores in CMA-ES. So the dimension of a report does not depend on that of the policy. A report about an older generation
says nothing about the candidates of this one, and is thrown away; here agents are asked in turn, and none is late, which favours it.

Both are given the same agents: as many reports, as many local episodes, the same ε. The other column is `pgc train` with its defaults.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from cmaes import CMA
from pgc.mechanisms import make_mechanism
from scipy.linalg import helmert
from scipy.stats import rankdata

import pgc
from pgc.config import configure
from pgc.config.problem import build
from pgc.deliver.initial import initial_theta
from pgc.engines.backend import scores_of
from pgc.numerics.randomness import trial_seed

TASKS = {
    "cartpole": dict(submissions=400, epsilon=1.0),
    "pendulum": dict(submissions=2000, epsilon=1.0),
}
SHAPES = ((4, 10), (8, 40))
"""Candidates of a generation, and agents that report on them."""


def candidates(world, submissions, epsilon, count, agents, seed):
    """Return the greedy score of the mean policy after so many reports, over the population."""
    problem = build(configure(world=world, epsilon=epsilon, seed=seed))
    first = np.asarray(initial_theta(trial_seed(seed, 0), problem.training.policy, problem.initial))
    basis = np.asarray(problem.deliverer.basis(first), float)
    rng, k = np.random.default_rng([seed, count, agents]), basis.shape[1]
    mechanism = make_mechanism("index", dim=count - 1, epsilon=epsilon, clip=1.0)
    contrasts = helmert(count)  # (K − 1, K), orthonormal rows that sum to zero
    search = CMA(mean=np.zeros(k), sigma=problem.config.spread, population_size=count, seed=seed)
    episodes = max(1, problem.training.episodes // count)
    homes = problem.training.population.grid()
    for _ in range(submissions // agents):
        tried = [search.ask() for _ in range(count)]
        thetas = (first + np.stack(tried) @ basis.T).astype(np.float32)
        told = np.zeros(count)
        for _ in range(agents):
            psi = homes[int(rng.integers(len(homes)))]
            own = int(rng.integers(2**31))
            scores = scores_of(problem, thetas, [psi], episodes=episodes, seed=own)[:, 0]
            ranks = rankdata(scores) - (count + 1) / 2
            report = contrasts @ ranks
            public, secret = (
                rng.integers(2**32, size=n, dtype=np.uint32)
                for n in (mechanism.public_words, mechanism.secret_words)
            )
            told += contrasts.T @ mechanism.randomize(report, public, secret)
        search.tell([(x, -float(value)) for x, value in zip(tried, told, strict=True)])
    last = (first + basis @ search.mean).astype(np.float32)
    return float(scores_of(problem, last[None], homes, episodes=50, seed=1).mean())


def default(world, submissions, epsilon, seed):
    """Return the greedy score of the averaged policy of `pgc train`."""
    with tempfile.TemporaryDirectory() as folder:
        run = pgc.train(
            world=world, submissions=submissions, epsilon=epsilon, seed=seed, eval_episodes=50,
            out=Path(folder) / "run", progress=None,
        )  # fmt: skip
        return run.summary["averaged_score_mean"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worlds", nargs="+", default=list(TASKS))
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    table = []
    for world in given.worlds:
        task = TASKS[world]
        for shape in (None, *SHAPES):
            name = "default" if shape is None else f"{shape[0]} candidates, {shape[1]} agents"
            scores = []
            for seed in range(given.seed, given.seed + given.trials):
                if shape is None:
                    scores.append(default(world, **task, seed=seed))
                else:
                    scores.append(
                        candidates(world, **task, count=shape[0], agents=shape[1], seed=seed)
                    )
            median = float(np.median(scores))
            table.append({"world": world, **task, "way": name, "median": median, "scores": scores})
            print(world, name, [round(score, 1) for score in scores], flush=True)
    if given.out:
        made = {
            "command": f"python benchmarks/candidates.py --trials {given.trials} --seed {given.seed} --out …",
            "rows": table,
        }
        given.out.write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
