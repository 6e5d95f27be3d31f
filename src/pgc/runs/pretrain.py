"""Trains in a public simulator, before anybody takes part: a start, and the few directions in which
good policies differ when ψ varies.

It costs no ε, because no agent has anything to do with it. Three searches, each in what the last
one found:

    usual     a policy for the usual world
    worlds    from there, a policy for each of some ψ of the population that may be out there
    robust    from there, one policy for all of that population

The differences between the policies of `worlds` span the learnt subspace: the principal directions,
each as long as one standard deviation of those policies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from pgc.config import TrainConfig, configure
from pgc.config.problem import Problem, build
from pgc.deliver.initial import initial_theta
from pgc.engines.backend import Backend, scores_of
from pgc.engines.crew import Crew
from pgc.engines.search import CANDIDATES, search
from pgc.errors import PgcError
from pgc.local_training.learnt import policy_notes
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.worlds.population import Population
from pgc.numerics.public_states import public_states
from pgc.numerics.randomness import trial_seed
from pgc.privacy.statement import privacy_statement
from pgc.runs.folder import Folder, new_path
from pgc.runs.machine import machine
from pgc.runs.progress import Progress
from pgc.runs.run import Run

NEARBY = 1 / 8
"""How much less far policies are tried around a policy that is good already."""
WORLDS_AT_ONCE = 8
"""How many ψ are drawn in each generation of a search for one policy for all of them."""
JUDGED = 100
"""Episodes by which a policy is judged at the end of a search, at each ψ."""


@dataclass
class Pretraining:
    """One pretraining in progress, in the simulator that a problem describes."""

    problem: Problem
    crew: Crew | None
    seed: int
    generations: int
    episodes: int
    """Episodes of each policy in each generation."""
    progress: Progress | None
    searches: int
    """How many searches there will be."""
    done: int = field(default=0, init=False)
    """Generations so far."""

    def best(
        self, theta: np.ndarray, basis: np.ndarray, psis: Population | Any, near: bool, words: str
    ) -> np.ndarray:
        """Returns the coordinates of a good policy near θ, at one ψ or for a population of them."""
        config, number = self.problem.config, self.done // self.generations
        assert config.spread is not None

        def score(thetas: np.ndarray, generation: int) -> np.ndarray:
            seeds = np.random.SeedSequence([self.seed, number, generation]).generate_state(2)
            some, episodes = [psis], self.episodes
            if isinstance(psis, Population):
                rng = np.random.default_rng(seeds[0])
                some = _drawn(psis, rng.random((WORLDS_AT_ONCE, len(psis.variations))))
                episodes = -(-self.episodes // len(some))
            means: np.ndarray = self.scores(thetas, some, episodes, int(seeds[1])).mean(axis=1)
            return means

        return search(
            score,
            theta,
            basis,
            spread=config.spread * (NEARBY if near else 1.0),
            generations=self.generations,
            seed=self.seed + number,
            after_each=lambda: self._tell(words),
        )

    def scores(
        self, thetas: np.ndarray, psis: Sequence[Any], episodes: int = JUDGED, seed: int = 1
    ) -> np.ndarray:
        """Returns mean scores (policies, ψs) of greedy play."""
        found = scores_of(
            self.problem,
            np.asarray(thetas, np.float32),
            list(psis),
            episodes=episodes,
            seed=seed,
            crew=self.crew,
        )
        return np.asarray(found)

    def _tell(self, words: str) -> None:
        self.done += 1
        if self.progress:
            number = (self.done - 1) % self.generations + 1
            words = f"{words}: generation {number} of {self.generations}"
            self.progress(self.done, self.searches * self.generations, words)


def pretrain(
    *,
    vary: tuple[str, ...] = (),
    directions: int = 4,
    worlds: int = 8,
    generations: int = 60,
    episodes: int = 16,
    skip_robust: bool = False,
    out: str | Path | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
    **settings: Any,
) -> Folder:
    """Trains in public, and returns the folder, which `--start` and `--subspace learnt` take.

    `vary` says how ψ may differ among those who will take part, as `population` does; without it
    there is only a policy for the usual world. `settings` are those of `pgc.train`.
    """
    problem = _in_public(configure(**settings, public=True, epsilon=math.inf))
    varied = Population.parse(problem.training.world, vary)
    if varied.variations and not 1 <= directions < worlds:
        raise PgcError(
            f"{worlds} worlds differ in at most {worlds - 1} directions: directions must be from 1 "
            f"to that, not {directions}"
        )
    for name, value in (("generations", generations), ("episodes", episodes)):
        if value < 1:
            raise PgcError(f"{name} must be at least 1, not {value}")
    backend = Backend(processes=processes)
    backend.check(problem)
    folder = Path(out) if out is not None else new_path("pretrained")
    run = Run.create(folder, problem.config)
    searches = 1 + (worlds + (not skip_robust) if varied.variations else 0)
    with run.locked(), backend.crew(problem) as crew:
        work = Pretraining(
            problem, crew, problem.config.seed, generations, episodes, progress, searches
        )
        arrays, found = _searches(work, varied, directions, worlds, not skip_robust)
    known = isinstance(problem.training.policy, ActorCritic)
    run.write_arrays(
        "policy.safetensors", arrays, policy_notes(problem.training.recipe if known else None)
    )
    run.write_json("privacy.json", privacy_statement(problem))
    run.write_json("summary.json", found | {"machine": machine()})
    return Folder(run.path)


def _searches(
    work: Pretraining, varied: Population, directions: int, worlds: int, robust: bool
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Makes the searches; returns the arrays of policy.safetensors, and what summary.json says."""
    problem, config = work.problem, work.problem.config
    policy, usual_world = problem.training.policy, problem.training.population
    first = np.asarray(initial_theta(trial_seed(config.seed, 0), policy, problem.initial))
    basis = np.asarray(problem.deliverer.basis(jnp.asarray(first)), float)
    at = usual_world if usual_world.variations else usual_world.base
    x = work.best(first, basis, at, config.start is not None, "usual world")
    theta = _of_one_size(problem, first + basis @ x)
    basis = np.asarray(problem.deliverer.basis(jnp.asarray(theta, jnp.float32)), float)
    found: dict[str, Any] = {
        "usual": float(work.scores(theta[None], usual_world.grid()).mean()),
        "generations": work.generations,
        "episodes": work.episodes,
        "candidates": CANDIDATES,
        "seed": config.seed,
    }
    usual = theta[None].astype(np.float32)
    arrays: dict[str, np.ndarray] = {"theta": usual, "averaged": usual}
    if not varied.variations:
        return arrays, found
    psis = _drawn(varied, _spread_out(worlds, len(varied.variations), config.seed))
    xs = np.stack(
        [
            work.best(theta, basis, psi, True, f"world {i} of {worlds}")
            for i, psi in enumerate(psis, 1)
        ]
    )
    arrays["directions"] = (principal(xs, directions) @ basis.T).astype(np.float32)
    before = work.scores(theta[None], psis)[0]
    own = [work.scores((theta + basis @ x)[None], [psi]) for x, psi in zip(xs, psis, strict=True)]
    names = [v.field for v in varied.variations]
    found["worlds"] = [
        {
            "psi": {name: float(getattr(psi, name)) for name in names},
            "usual": float(usual_policy),
            "own": float(own_policy[0, 0]),
        }
        for psi, usual_policy, own_policy in zip(psis, before, own, strict=True)
    ]
    if robust:
        one = theta + basis @ work.best(theta, basis, varied, True, "one policy for all")
        arrays["averaged"] = one[None].astype(np.float32)
        found["robust"] = [float(score) for score in work.scores(one[None], psis)[0]]
    return arrays, found


def principal(points: np.ndarray, count: int) -> np.ndarray:
    """Returns the first principal directions (count, k) of points (n, k), each as long as one
    standard deviation of the points along it.
    """
    away = points - points.mean(axis=0)
    _, sizes, rows = np.linalg.svd(away, full_matrices=False)
    made = rows[:count] * (sizes[:count, None] / math.sqrt(len(points) - 1))
    # a direction and its opposite are the same subspace: take one of them, on any machine
    signs = np.sign(made[np.arange(len(made)), np.abs(made).argmax(axis=1)])
    signed: np.ndarray = made * signs[:, None]
    return signed


def _in_public(config: TrainConfig) -> Problem:
    """Returns the problem of the simulator, which needs a subspace to search in."""
    problem = build(replace(config, submissions=1, trials=1))
    if problem.deliverer.subspace is None:
        raise PgcError(
            "pretraining searches in a public subspace, and this policy has none: use --subspace "
            "linear or quadratic"
        )
    return problem


def _of_one_size(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """Returns θ with its outputs scaled to half of what the cap allows, so that private learning
    can change them. Greedy actions stay the same.
    """
    cap = problem.aggregator.cap
    if cap is None:
        return theta
    states = jnp.asarray(public_states(problem.training.world.observation_bounds))
    policy = cap.policy
    outputs, _ = policy.apply(policy.unflatten(jnp.asarray(theta, jnp.float32)[:, None]), states)
    contrasts = jnp.asarray(policy.actions.contrasts) @ outputs
    size = float(jnp.sqrt(jnp.mean(contrasts**2)))
    scaled = policy.scale_outputs(
        jnp.asarray(theta, jnp.float32), jnp.asarray(cap.most / 2 / max(size, 1e-6))
    )
    return np.asarray(scaled, float)


def _drawn(population: Population, uniforms: np.ndarray) -> list[Any]:
    """Returns one ψ for each row of uniform numbers."""
    return [population.pick(row) for row in uniforms]


def _spread_out(count: int, dimensions: int, seed: int) -> np.ndarray:
    """Returns points (count, dimensions) of the unit cube that lie evenly in it (Halton)."""
    from scipy.stats import qmc

    return np.asarray(qmc.Halton(dimensions, rng=np.random.default_rng(seed)).random(count))
