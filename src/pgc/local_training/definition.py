"""The definition of step 2: one private agent plays the θ that it received, and computes one
gradient from its episodes.

The functions here handle one agent and one report at a time. `compiled.py` computes the same for
thousands of agents side by side, with the same random numbers. `on_host.py` computes the same in
NumPy for worlds that play on the host, with random numbers of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from pgc.local_training.estimators.estimator import Estimator, make_estimator
from pgc.local_training.estimators.loss import Episode
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.local_training.recipe import Recipe
from pgc.local_training.worlds.base import CompiledWorld, World
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import compiled
from pgc.numerics import randomness
from pgc.numerics.randomness import Address, Stream
from pgc.numerics.tracing import trace_fields
from pgc.spaces import Words
from pgc.wire.values import Delivery, Played

PERTURBATIONS = 2**20
"""The position in the RESET stream at which the perturbations of local episodes begin."""


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Everything that determines what an agent does with the θ that it receives.

    All fields are public; an agent's ψ, episodes and gradient are private.
    """

    world: World
    population: Population
    policy: Policy | TorchPolicy
    recipe: Recipe
    """How θ is played, and which estimate from the local episodes is reported."""
    dim: int
    """The number of coordinates of a reported gradient: d, or k in a subspace."""
    episodes: int = 1
    """The number of local episodes from which one report is computed."""

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator, which computes the reported coordinates from the local episodes."""
        return make_estimator(self.recipe, self.policy, self.world, self.dim)

    @property
    def world_and_policy(self) -> tuple[CompiledWorld, Policy]:
        """The world and the policy; both must be able to play inside a compiled program."""
        assert not isinstance(self.policy, TorchPolicy)
        return compiled(self.world), self.policy

    @property
    def episodes_played(self) -> int:
        """The number of episodes of one submission, including a separate episode for the score."""
        return self.episodes + (self.recipe.score == "greedy")


trace_fields(LocalTraining)


def draw_psi(at: Address, population: Population) -> Any:
    """Draws the agent's ψ, which is the same in all its submissions."""
    return population.draw(randomness.key(at.seed, Stream.PSI, at.agent, 0))


def perturbation(training: LocalTraining, at: Address, episode: jax.Array | int) -> jax.Array:
    """Returns the perturbation ξ_e (k, *batch) of a local episode, which is standard normal.

    Episodes come in pairs: the second of a pair uses the negative of the first one's ξ.
    """
    episode, pairs = jnp.asarray(episode), (training.dim + 1) // 2
    places = (
        PERTURBATIONS
        + episode // 2 * pairs
        + jnp.arange(pairs).reshape(-1, *[1] * (at.seed.ndim - 1))
    )
    xi = randomness.normal(*randomness.words(at.seed, Stream.RESET, at.submission, places))[
        : training.dim
    ]
    return jnp.where(episode % 2 == 0, xi, -xi)


def action_words(training: LocalTraining, at: Address, tick: jax.Array) -> list[Words]:
    """Returns the random words that decide the action at a tick of a submission."""
    pairs = training.policy.actions.word_pairs
    return [
        randomness.words(at.seed, Stream.PLAY, at.submission, tick * pairs + i)
        for i in range(pairs)
    ]


def play_episode(
    training: LocalTraining,
    theta: jax.Array,
    psi: Any,
    at: Address,
    index: int,
    ticks: jax.Array,
    alpha: jax.Array | float,
    greedy: bool,
) -> Episode:
    """Plays episode `index` of a submission that has used `ticks` environment steps so far."""
    world, policy = training.world_and_policy
    params = policy.unflatten(theta)
    state = world.reset(randomness.key(at.seed, Stream.RESET, at.submission, index), psi)

    def step(carry: Any, t: jax.Array) -> Any:
        state, live, terminated = carry
        step_key = randomness.key(at.seed, Stream.WORLD, at.submission, ticks + t)
        outputs, _ = policy.apply(params, world.observe(state))
        action = policy.actions.draw(outputs, action_words(training, at, ticks + t), alpha, greedy)
        moved = world.step(step_key, state, action, psi)
        after = jax.tree.map(lambda new, old: jnp.where(live, new, old), moved.state, state)
        ended = live & moved.terminated
        return (after, live & ~moved.terminated, terminated | ended), (
            world.observe(after),
            action,
            moved.reward,
            live,
        )

    start = (state, jnp.ones((), bool), jnp.zeros((), bool))
    (_, _, terminated), (seen, actions, rewards, lived) = jax.lax.scan(
        step, start, jnp.arange(world.max_steps)
    )
    observations = jnp.concatenate([world.observe(state)[:, None], seen.T], axis=1)
    return Episode(observations, jnp.moveaxis(actions, 0, -1), rewards, jnp.sum(lived), terminated)


@jax.jit
def play(
    training: LocalTraining, delivery: Delivery, psi: Any, at: Address, alpha: jax.Array
) -> Played:
    """Step 2: plays the delivered θ in the agent's own world, and computes one gradient."""
    estimator, ticks, episodes = training.estimator, jnp.zeros((), jnp.int32), []
    xi = jnp.stack(
        [perturbation(training, at, index) for index in range(training.episodes)], axis=-1
    )
    for index in range(training.episodes_played):
        scoring = index >= training.episodes
        theta = delivery.theta if scoring else estimator.parameters(*delivery, xi[:, index])
        greedy = scoring or training.recipe.greedy
        episode = play_episode(
            training, theta, psi, at, index, ticks, 0.0 if scoring else alpha, greedy
        )
        ticks = ticks + episode.length
        episodes.append(episode)
    scored = episodes[-1] if training.recipe.score == "greedy" else episodes[0]
    score = jnp.sum(
        jnp.where(jnp.arange(scored.rewards.shape[0]) < scored.length, scored.rewards, 0.0)
    )
    return Played(estimator.coordinates(*delivery, episodes[: training.episodes], xi), score, ticks)
