"""(b) Dynamics: which of some candidates ψ is the home that a report came from?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgc.config import configure
from pgc.config.problem import Problem, build
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game
from pgc.robber.guesser import Guesser
from pgc.robber.homes import Homes, first_theta, play_homes, reports

DRAWS = 4
"""How many reports the robber draws from each gradient that it simulated."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A world, and the candidates: every combination of these values of ψ."""

    name: str
    title: str
    secret: str
    population: tuple[str, ...]
    asked: dict[str, Any]
    """What the robber's aggregator asks devices for; it may ask for much play."""

    def problem(self, epsilon: float) -> Problem:
        """Returns what an agent does at this ε."""
        world = dict(world=self.name, population=self.population, epsilon=epsilon)
        return build(configure(**world, score="training", **self.asked))

    @property
    def fields(self) -> list[str]:
        """The fields of ψ that differ."""
        return [text.partition("=")[0] for text in self.population]


WHOLE = dict(
    mechanism="laplace", subspace="full", estimator="policy-gradient", hidden=(16,),
    initial="glorot", baseline="critic", local_episodes=20,
)  # fmt: skip
QUESTIONS = (
    Question(
        name="cartpole",
        title="Gravity of a CartPole",
        secret="Whether gravity is 5 or 15.",
        population=("gravity=5,15",),
        asked=WHOLE,
    ),
    Question(
        name="thermostat",
        title="Hours of presence",
        secret="When nobody is at home: from 7 or from 10 o'clock, until 14 or until 20 o'clock.",
        population=("leaves=7,10", "returns=14,20"),
        asked=dict(local_episodes=200, initial="glorot"),
    ),
    Question(
        name="rooms",
        title="Which of four floor plans",
        secret="Where two of the walls of a home stand.",
        population=("wall=3,5", "left=3,5"),
        asked=WHOLE,
    ),
)


def attack(question: Question, effort: Effort) -> Attack:
    """Learns from homes that the robber simulates, and guesses about others."""
    size = effort.of(3000, 800)
    problem = question.problem(1.0)
    theta = first_theta(problem, effort.seed)
    mine = play_homes(problem, theta, size, 2 * effort.seed + 1)
    robbed = play_homes(problem, theta, size, 2 * effort.seed + 2)
    candidates = secrets_of(mine, question.fields)
    truth = secrets_of(robbed, question.fields)
    common: dict[str, Any] = dict(secrets=2 ** len(question.fields))
    mechanism = problem.config.mechanism
    plain = Guesser.learn(mine.gradients.T, candidates).guess(robbed.gradients.T)
    games = [Game.counted(plain == truth, arm="no noise", epsilon=math.inf, breaks=True, **common)]
    for epsilon in effort.some_epsilons:
        noisy = question.problem(epsilon)
        seen = np.concatenate([reports(noisy, mine, again) for again in range(DRAWS)])
        guesser = Guesser.learn(seen, np.tile(candidates, DRAWS))
        guesses = guesser.guess(reports(noisy, robbed))
        games.append(Game.counted(guesses == truth, arm=str(mechanism), epsilon=epsilon, **common))
    return Attack(
        name=question.name,
        title=question.title,
        adversary="It runs the aggregator: it chose θ and how many episodes are played, knows the "
        "mechanism and its public seeds, and can simulate as many homes as it likes.",
        secret=question.secret,
        works=f"It simulates {size:,} homes with each of the candidates in turn, has them report "
        "as the robbed home does, and learns a linear discriminant: the best guess where noise is "
        "nearly normal.",
        limit=f"e^ε/(e^ε + {common['secrets'] - 1}): candidates fix the distribution of a "
        "gradient, and a mean of likelihoods keeps the bound.",
        games=tuple(games),
    )


def secrets_of(homes: Homes, fields: Sequence[str]) -> np.ndarray:
    """Returns the number of each home's candidate, given the fields of ψ that have two values."""
    number = np.zeros(homes.steps.shape, int)
    for name in fields:
        values = np.asarray(getattr(homes.psi, name))
        number = 2 * number + (values > values.mean())
    return number
