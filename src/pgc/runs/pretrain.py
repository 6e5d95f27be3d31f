"""Trains in a public simulator, before anybody takes part. It finds a θ_0 to start from, and the
few directions of θ in which good policies differ when ψ varies.

It costs no ε, because no agent takes part. There are three kinds of search; the second and the
third begin at the result of the first:

    usual     one policy for the usual world
    worlds    one policy for each of some homes, whose ψ lie evenly in what may be out there
    robust    one policy for all that may be out there

The steps from the start of private learning to the homes' own policies span the learnt subspace:
their principal directions, each as long as the root mean square of those steps along it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import yaml
from scipy.stats import qmc

from pgc.config import TrainConfig, configure, from_yaml, to_yaml
from pgc.config.problem import Problem, build
from pgc.deliver.initial import initial_theta
from pgc.engines.backend import Backend, scores_of, try_worlds
from pgc.engines.crew import Crew
from pgc.errors import Interrupted, PgcError, refuse_code
from pgc.local_training.learnt import policy_notes
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.worlds.population import Population
from pgc.numerics.randomness import trial_seed
from pgc.privacy.statement import privacy_statement
from pgc.runs.directions import comparable, of_one_size, principal
from pgc.runs.folder import Folder, new_path
from pgc.runs.machine import machine
from pgc.runs.programs import keep_programs
from pgc.runs.progress import Progress, Show, shown, stop_signals
from pgc.runs.search import CANDIDATES, check, search

NEARBY = 1 / 8
"""The factor by which σ is smaller where a search begins at a policy that is good already."""
WORLDS_AT_ONCE = 8
"""The number of ψ that are drawn in each generation of the search for one policy for all."""
MOST_DIRECTIONS = 4
"""The most directions, unless more are asked for."""
CHOOSING, JUDGING = 50, 100
"""Greedy episodes at each ψ by which the better of two policies is chosen; and others by which the
chosen ones are judged."""
SETTINGS, SEARCHES = "pretrain.yaml", "searches.safetensors"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is searched for, and for how long."""

    vary: tuple[str, ...]
    """How ψ may differ among those who will take part, as in `population`."""
    directions: int
    worlds: int
    """The number of homes for which a policy of their own is searched."""
    generations: int
    episodes: int
    """Episodes of each policy in each generation."""
    robust: bool
    """Whether one policy for all is searched as well."""

    @property
    def searches(self) -> int:
        """How many searches there are."""
        return 1 + (self.worlds + self.robust if self.vary else 0)


def pretrain(
    *,
    vary: tuple[str, ...] = (),
    directions: int | None = None,
    worlds: int = 8,
    generations: int = 60,
    episodes: int = 16,
    skip_robust: bool = False,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    progress: Show = "auto",
    processes: int | None = None,
    run_code: bool = False,
    **settings: Any,
) -> Folder:
    """Trains in public, and returns the folder, which `--start` and `--subspace learnt` take.

    `vary` says how ψ may differ among those who will take part, as `population` does; without it
    there is only a policy for the usual world. `settings` are those of `pgc.train`. A folder of a
    pretraining that was stopped can be given to `resume`; it keeps every search that had ended.
    """
    if resume is not None:
        if settings or vary or out is not None:
            raise PgcError("resume takes every setting from the folder; give nothing else")
        folder, config, asked = _read(Path(resume), run_code)
        problem = _in_public(config)
    else:
        problem = _in_public(configure(**settings, public=True, epsilon=math.inf))
        config, folder = problem.config, Folder(Path(out) if out else new_path("pretrained"))
        if directions is None:
            directions = min(MOST_DIRECTIONS, worlds - 1, _dim(problem) - 1)
        asked = Settings(
            vary=tuple(vary),
            directions=directions,
            worlds=worlds,
            generations=generations,
            episodes=episodes,
            robust=not skip_robust,
        )
        _check(problem, asked)
    varied = _population(problem, asked.vary)
    homes = _homes(varied, asked.worlds, config.seed) if asked.vary else []
    backend = Backend(processes=processes)
    backend.check(problem)
    try_worlds(problem.training.world, homes)
    if resume is None:
        folder.make(folder.path)
        text = yaml.safe_dump({**asdict(asked), "config": to_yaml(config)}, sort_keys=False)
        folder.write(SETTINGS, text.encode())
    elif (folder.path / "summary.json").exists():
        return folder
    keep_programs()
    with (
        folder.locked(),
        stop_signals() as stop_asked,
        backend.crew(problem) as crew,
        shown(progress) as report,
    ):
        work = Pretraining(problem, asked, folder, crew, report, stop_asked)
        arrays, found = work.all(varied, homes)
    known = isinstance(problem.training.policy, ActorCritic)
    notes = policy_notes(problem.training.recipe if known else None)
    folder.write_arrays("policy.safetensors", arrays, notes)
    folder.write_json("privacy.json", privacy_statement(problem))
    folder.write("config.yaml", to_yaml(config).encode())
    folder.write_json("summary.json", found | {"machine": machine()})
    (folder.path / SEARCHES).unlink(missing_ok=True)
    return folder


@dataclass
class Pretraining:
    """One pretraining in progress, in the simulator that a problem describes."""

    problem: Problem
    settings: Settings
    folder: Folder
    crew: Crew | None
    progress: Progress | None
    stop_asked: Callable[[], bool]
    begun: int = field(default=0, init=False)
    """The number of searches so far."""
    ended: dict[str, np.ndarray] = field(default_factory=dict, init=False)
    """What the searches found that have ended, by their number."""

    def __post_init__(self) -> None:
        """Takes up the searches that ended before this process began."""
        if (self.folder.path / SEARCHES).exists():
            self.ended, _ = self.folder.read_arrays(SEARCHES)

    def all(
        self, varied: Population, homes: Sequence[Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Makes every search; returns the arrays of policy.safetensors, and what summary.json says.

        `averaged` is the policy that --start, pgc evaluate and pgc.load take.
        """
        problem, cap = self.problem, self.problem.aggregator.cap
        config, population = problem.config, problem.training.population
        first = np.asarray(
            initial_theta(trial_seed(config.seed, 0), problem.training.policy, problem.initial)
        )
        basis = self.basis(first)
        where = population if population.variations else population.base
        x = self.best(first, basis, where, config.start is not None, "usual world")
        usual = of_one_size(cap, first + basis @ x)
        found: dict[str, Any] = {
            **asdict(self.settings),
            "candidates": CANDIDATES,
            "seed": config.seed,
            "usual": float(self.scores(usual[None], population.grid(), self.judging(0)).mean()),
            "start": "usual",
        }
        arrays = {"theta": usual[None].astype(np.float32)}
        arrays["averaged"] = arrays["theta"]
        if not homes:
            return arrays, found
        basis = self.basis(usual)
        own = []
        for i, psi in enumerate(homes, 1):
            x = self.best(usual, basis, psi, True, f"home {i} of {len(homes)}")
            own.append(self.better(usual, usual + basis @ x, [psi]))
        one = usual
        if self.settings.robust:
            x = self.best(usual, basis, varied, True, "one policy for all")
            one = self.better(usual, of_one_size(cap, usual + basis @ x), homes)
            found["start"] = "usual" if one is usual else "one for all"
            arrays["averaged"] = one[None].astype(np.float32)
        moved = [np.linalg.lstsq(basis, theta - usual, rcond=None)[0] for theta in (*own, one)]
        *xs, start = comparable(cap, usual, basis, np.stack(moved))
        rows = principal(np.stack(xs) - start, self.settings.directions)
        if len(rows) >= 2:
            arrays["directions"] = (rows @ basis.T).astype(np.float32)
        found["directions"] = len(arrays.get("directions", ()))
        found["homes"] = self.judged(varied, homes, usual, own, one)
        return arrays, found

    def basis(self, theta: np.ndarray) -> np.ndarray:
        """Returns the basis (d, k) of the public subspace at θ, in which searches look."""
        return np.asarray(self.problem.deliverer.basis(jnp.asarray(theta, jnp.float32)), float)

    def best(
        self, theta: np.ndarray, basis: np.ndarray, where: Any, near: bool, words: str
    ) -> np.ndarray:
        """Returns the coordinates of a good policy near θ, at one ψ or for a population of them."""
        number, settings = self.begun, self.settings
        self.begun += 1
        if str(number) in self.ended:
            return self.ended[str(number)].astype(float)
        spread = self.problem.config.spread
        assert spread is not None

        def score(thetas: np.ndarray, generation: int) -> np.ndarray:
            one, two = self.seeds(number, generation)
            some, episodes = [where], settings.episodes
            if isinstance(where, Population):
                rng = np.random.default_rng(one)
                some = _drawn(where, rng.random((WORLDS_AT_ONCE, len(where.variations))))
                episodes = -(-episodes // len(some))
            means: np.ndarray = self.scores(thetas, some, two, episodes).mean(axis=1)
            self.tell(number * settings.generations + generation + 1, words)
            return means

        x = search(
            score,
            theta,
            basis,
            spread=spread * (NEARBY if near else 1.0),
            generations=settings.generations,
            seed=self.seeds(number)[0],
        )
        self.ended[str(number)] = x
        self.folder.write_arrays(SEARCHES, self.ended)
        return x

    def better(self, one: np.ndarray, other: np.ndarray, psis: Sequence[Any]) -> np.ndarray:
        """Returns the policy with the higher mean score over some ψ; the first if they are equal.

        It is played for CHOOSING episodes of their own, because what a search reports is the best
        of many chances.
        """
        scores = self.scores(np.stack([one, other]), psis, self.judging(1), CHOOSING).mean(axis=1)
        return other if scores[1] > scores[0] else one

    def judged(
        self,
        varied: Population,
        homes: Sequence[Any],
        usual: np.ndarray,
        own: Sequence[np.ndarray],
        one: np.ndarray,
    ) -> list[dict[str, Any]]:
        """Returns the scores of the policies in each home, in episodes that chose none of them."""
        names, listed = [v.field for v in varied.variations], []
        for psi, mine in zip(homes, own, strict=True):
            thetas = np.stack([usual, mine, one])
            scores = self.scores(thetas, [psi], self.judging(0))[:, 0].tolist()
            listed.append(
                {
                    "psi": {name: float(getattr(psi, name)) for name in names},
                    **dict(zip(("usual", "own", "one for all"), scores, strict=True)),
                }
            )
        return listed

    def scores(
        self, thetas: np.ndarray, psis: Sequence[Any], seed: int, episodes: int = JUDGING
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

    def seeds(self, *address: int) -> list[int]:
        """Returns two seeds that belong to this address alone, among all addresses and runs."""
        sequence = np.random.SeedSequence([self.problem.config.seed, *address])
        return [int(word) for word in sequence.generate_state(2)]

    def judging(self, which: int) -> int:
        """Returns the seed of episodes that no search has played."""
        return self.seeds(self.settings.searches)[which]

    def tell(self, done: int, words: str) -> None:
        """Reports progress after a generation, and ends the process's work if it was asked to."""
        if self.progress:
            number = (done - 1) % self.settings.generations + 1
            words = f"{words}: generation {number} of {self.settings.generations}"
            self.progress(done, self.settings.searches * self.settings.generations, words)
        if self.stop_asked():
            raise Interrupted(f"stopped; continue with: pgc pretrain --resume {self.folder.path}")


def _check(problem: Problem, settings: Settings) -> None:
    """Refuses what cannot be done, before any of it is done."""
    for name, value in (("generations", settings.generations), ("episodes", settings.episodes)):
        if value < 1:
            raise PgcError(f"{name} must be at least 1, not {value}")
    check(_dim(problem))
    most = min(settings.worlds - 1, _dim(problem) - 1)
    if settings.vary and not 2 <= settings.directions <= most:
        raise PgcError(
            f"directions must be from 2 to {most}, not {settings.directions}: {settings.worlds} "
            f"worlds differ in at most {settings.worlds - 1}, and agents can report in all "
            f"{_dim(problem)} of the {problem.config.subspace} subspace anyway"
        )


def _read(path: Path, run_code: bool) -> tuple[Folder, TrainConfig, Settings]:
    """Returns the folder of a pretraining, its config, and what it searches for."""
    try:
        held = yaml.safe_load((path / SETTINGS).read_text(encoding="utf-8"))
        config = from_yaml(held.pop("config"))
        settings = Settings(**{**held, "vary": tuple(held["vary"])})
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        raise PgcError(
            f"{path} is not a folder that pgc pretrain made; give --resume one that it made"
        ) from None
    refuse_code(vars(config), path / SETTINGS, run_code)
    return Folder(path), config, settings


def _in_public(config: TrainConfig) -> Problem:
    """Returns the problem of the simulator, which needs a subspace to search in."""
    problem = build(replace(config, submissions=1, trials=1))
    if problem.deliverer.subspace is None:
        raise PgcError(
            "pretraining searches in a public subspace, and this policy has none: use a policy in "
            "JAX, with --subspace linear or quadratic"
        )
    return problem


def _dim(problem: Problem) -> int:
    assert problem.deliverer.subspace is not None
    return problem.deliverer.subspace.dim


def _population(problem: Problem, vary: tuple[str, ...]) -> Population:
    """Returns what may be out there: the usual population, in which `vary` varies as well."""
    usual = problem.config.population or ()
    again = {text.partition("=")[0] for text in vary}
    kept = tuple(text for text in usual if text.partition("=")[0] not in again)
    return Population.parse(problem.training.world, kept + vary)


def _homes(population: Population, count: int, seed: int) -> list[Any]:
    """Returns ψs that lie evenly in a population (Halton's sequence)."""
    points = qmc.Halton(len(population.variations), rng=np.random.default_rng(seed)).random(count)
    return _drawn(population, np.asarray(points))


def _drawn(population: Population, uniforms: np.ndarray) -> list[Any]:
    """Returns one ψ for each row of uniform numbers."""
    return [population.pick(row) for row in uniforms]
