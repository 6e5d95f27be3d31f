"""Homes that the robber simulates, and those that it robs: agents who play a θ that the aggregator
chose, their gradients, and the reports of these.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config.problem import Problem
from pgc.deliver.initial import initial_theta
from pgc.local_training import compiled
from pgc.local_training.definition import LocalTraining
from pgc.numerics.randomness import Address, trial_seed
from pgc.numerics.trees import select
from pgc.randomise.simulated import Randomiser, simulate_report, words_for_report
from pgc.wire.values import Delivery

TICKS = 16
"""How many environment steps are taken between two looks at who has finished."""


class Homes(NamedTuple):
    """Agents after step 2. The last axis of everything is the agent."""

    psi: Any
    gradients: np.ndarray
    """The numbers that each agent will randomise, (k, n)."""
    state: Any
    """The world's state at the end of the last episode."""
    steps: np.ndarray
    """Environment steps of each agent, (n,)."""
    at: Address
    """Where the random words of each agent come from."""


def first_theta(problem: Problem, seed: int) -> np.ndarray:
    """Returns a θ_0, as the first agents are handed it."""
    return np.asarray(initial_theta(trial_seed(seed, 0), problem.training.policy, problem.initial))


def play_homes(problem: Problem, theta: np.ndarray, count: int, seed: int) -> Homes:
    """Has `count` agents, whose ψ are drawn from the problem's population, play θ once each."""
    state = problem.start(jnp.asarray(theta, jnp.float32))
    delivery = problem.deliverer.deliver(state)
    words = jnp.broadcast_to(trial_seed(seed, 0)[:, None], (2, count))
    numbers = jnp.arange(count)
    at = Address(words, numbers, numbers)
    alpha = jnp.full(count, problem.deliverer.alpha(jnp.zeros((), jnp.int32)))
    psi, gradients, ended, steps = _play(problem.training, delivery, at, alpha)
    to_numpy = partial(jax.tree.map, np.asarray)
    return Homes(to_numpy(psi), np.asarray(gradients), to_numpy(ended), np.asarray(steps), at)


@jax.jit
def _play(training: LocalTraining, delivery: Delivery, at: Address, alpha: jax.Array) -> Any:
    lanes = at.seed.shape[-1]
    everywhere = Delivery(
        *(
            None if part is None else jnp.broadcast_to(part[..., None], (*part.shape, lanes))
            for part in delivery
        )
    )

    def turn(carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        now, done = carry
        played = compiled.play(training, everywhere, now, TICKS, ~done)
        played, complete = compiled.end_episodes(training, everywhere.theta, played)
        return select(done, now, played), done | complete

    now, _ = jax.lax.while_loop(
        lambda carry: ~jnp.all(carry[1]),
        turn,
        (compiled.begin(training, at, alpha), jnp.zeros(lanes, bool)),
    )
    return now.psi, compiled.coordinates(training, everywhere, now), now.state, now.ticks


def reports(problem: Problem, homes: Homes, again: int = 0) -> np.ndarray:
    """Returns what the aggregator decodes from the homes' reports (n, k), in the coordinates that
    agents report. `again` numbers independent draws of the noise.
    """
    fresh = homes.at.submission + (again + 1) * homes.gradients.shape[1]
    at = homes.at._replace(submission=fresh)
    return np.asarray(_reports(problem.randomiser, jnp.asarray(homes.gradients), at))


@jax.jit
def _reports(randomiser: Randomiser, gradients: jax.Array, at: Address) -> jax.Array:
    def one(gradient: jax.Array, at: Address) -> jax.Array:
        return simulate_report(randomiser, None, gradient, *words_for_report(randomiser, at))

    return jax.vmap(one, -1)(gradients, at)
