"""(e) Policies: what does a policy that was released tell about the worlds it was learnt in?

Pan et al. (2019) recover dynamics from a policy. A policy is learnt to fit its worlds, so what they
have in common is in it, with or without noise: that is a property of the population, and nobody
promised to hide it. What one device adds to θ is another matter: it is one report.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config.problem import Problem
from pgc.numerics.projection import to_theta_space
from pgc.robber.dynamics import QUESTIONS, secrets_of
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game
from pgc.robber.guesser import Guesser
from pgc.robber.homes import first_theta, play_homes, reports
from pgc.runs.train import train

INSULATION = (3.0, 7.0)
PEOPLE = 150
"""The reports from which each policy is learnt."""


def attack(effort: Effort) -> Attack:
    """Learns policies in two populations, and tells them apart; then adds one device to a round."""
    games = []
    learnt = [(math.inf, "a policy, no noise"), (1.0, "a policy, ε = 1")]
    for epsilon, arm in learnt[: effort.of(2, 1)]:
        vectors, population = _policies(epsilon, effort)
        mine = np.arange(len(vectors)) % 2 == 0
        guesser = Guesser.learn(vectors[mine], population[mine])
        right = guesser.guess(vectors[~mine]) == population[~mine]
        games.append(Game.counted(right, arm=arm, epsilon=epsilon, breaks=True))
    games += [_one_device(epsilon, effort) for epsilon in effort.some_epsilons]
    return Attack(
        name="policy",
        title="From a released policy",
        adversary="It has the policy, and learnt hundreds of its own in simulated populations. For "
        "the second question it knows every other report of the round as well.",
        secret="First, whether everybody's home is insulated badly or well (thermostat, a "
        "resistance of 3 or of 7). Then, at which of two gravities one device "
        "lives (CartPole, 5 or 15).",
        works="A linear discriminant on θ, which the robber learnt from its own policies. For one "
        "device it compares θ before and after the round in which the device reported.",
        limit="None for what a whole population has in common: that is what was to be learnt. "
        "e^ε/(e^ε + 1) for one device, because θ is computed from its report alone.",
        games=tuple(games),
    )


def _policies(epsilon: float, effort: Effort) -> tuple[np.ndarray, np.ndarray]:
    """Returns policies θ (n, d), and the number of the population of each."""
    vectors, population = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, resistance in enumerate(INSULATION):
            run = train(
                world="thermostat", population=(f"resistance={resistance:g}",), epsilon=epsilon,
                submissions=PEOPLE, trials=effort.of(120, 48), seed=effort.seed + number,
                eval_episodes=1, out=Path(folder) / str(number), progress=None,
            )  # fmt: skip
            thetas = run.policies()["averaged"]
            vectors.append(thetas)
            population.append(np.full(len(thetas), number))
    return np.concatenate(vectors), np.concatenate(population)


def _one_device(epsilon: float, effort: Effort) -> Game:
    """Plays for one device in a round whose other reports the robber knows."""
    question = QUESTIONS[0]
    problem = question.problem(epsilon)
    theta = first_theta(problem, effort.seed)
    size = effort.of(2000, 600)
    mine = play_homes(problem, theta, size, 2 * effort.seed + 3)
    robbed = play_homes(problem, theta, size, 2 * effort.seed + 4)
    known = reports(problem, mine)[: _round(problem) - 1]
    guesser = Guesser.learn(
        _moves(problem, theta, known, reports(problem, mine)), secrets_of(mine, question.fields)
    )
    guesses = guesser.guess(_moves(problem, theta, known, reports(problem, robbed)))
    truth = secrets_of(robbed, question.fields)
    return Game.counted(guesses == truth, arm="one device's part of θ", epsilon=epsilon)


def _round(problem: Problem) -> int:
    size = problem.config.buffer_size
    assert size is not None
    return size


def _moves(problem: Problem, theta: np.ndarray, known: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Returns how θ moves (n, d) when each of the last reports completes a round."""
    state = problem.start(jnp.asarray(theta, jnp.float32))

    def lifted(report: jax.Array) -> jax.Array:
        return report if state.basis is None else to_theta_space(state.basis, report)

    @jax.jit
    def after(report: jax.Array) -> jax.Array:
        full = state
        for other in known:
            full = problem.aggregator.accept(full, lifted(jnp.asarray(other)), state.version)
        moved = problem.aggregator.accept(full, lifted(report), state.version)
        return moved.theta - state.theta

    return np.asarray(jax.vmap(after)(jnp.asarray(last)))
