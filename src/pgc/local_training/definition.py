"""Steps 2 and 3: one private agent. An offer (θ) in, report out; the only door through which anything leaves.

This is the definition, for one agent and one report at a time. `agents_batched.py` does the same for thousands of agents side by
side, with the same random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from pgc.deliver import schedule
from pgc.errors import BudgetSpent
from pgc.local_training.estimators.estimator import Estimator
from pgc.local_training.estimators.loss import Episode
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.local_training.worlds.base import CompiledWorld, World
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import compiled
from pgc.numerics import randomness
from pgc.numerics.projection import lift
from pgc.numerics.randomness import Stream
from pgc.numerics.tracing import trace_fields, trace_mechanism
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.spaces import Words

PERTURBATIONS = 2**20
"""Positions of the RESET stream from here on hold the perturbations of local episodes."""


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """What every agent does with the θ it is handed. All of it is public; ψ, the episodes and the gradient are not."""

    world: World
    population: Population
    policy: Policy | TorchPolicy
    estimator: Estimator
    """What of the local episodes is reported."""
    mechanism: Mechanism
    """Q, with the ε of *one* submission."""
    score_bit: ScoreBit | None
    """Randomises "score ≥ Θ", with the score's ε of one submission; None sends no score."""
    submissions: int = 1
    """T: how often one agent submits before it has spent its budget."""
    episodes: int = 1
    """Local episodes that one report is made of."""
    action: Literal["sampled", "argmax"] = "argmax"
    alpha_start: float = 0.5
    alpha_decay: float = 1800.0
    score: Literal["training", "greedy"] = "training"
    """ζ of a submission: that of its (first) training episode, or of one more episode played greedily and not trained on."""
    control: bool | jax.Array = False
    """Replace every gradient by zero before the mechanism: what pure noise would do."""

    def __post_init__(self) -> None:
        """Whatever mechanism comes, its numbers are traced."""
        if isinstance(self.mechanism, Mechanism):  # not so while JAX takes the tree apart
            trace_mechanism(self.mechanism)

    @property
    def played(self) -> tuple[CompiledWorld, Policy]:
        """World and policy, where both play compiled."""
        assert not isinstance(self.policy, TorchPolicy)
        return compiled(self.world), self.policy

    @property
    def episodes_played(self) -> int:
        """Per submission, the scoring episode included."""
        return self.episodes + (self.score == "greedy")


trace_fields(LocalTraining, "mechanism", "control")


class Offer(NamedTuple):
    """Step 1: what an agent is handed. All of it is public."""

    theta: jax.Array  # θ (d,)
    basis: jax.Array | None  # W (d, k) of the subspace to report in; None: the whole gradient


class Submission(NamedTuple):
    """What reaches the aggregator (`report`, `bit`), and what only a simulation's metrics may read (`score`, `ticks`)."""

    report: jax.Array  # g̃ (d,), decoded with the basis of its own offer
    bit: jax.Array  # the noisy boolean
    score: jax.Array  # ζ
    ticks: jax.Array  # environment steps played


class Address(NamedTuple):
    """Where the random words of one submission are found (see `randomness.py`)."""

    seed: jax.Array  # (2, *batch), of the trial
    agent: jax.Array | int
    submission: jax.Array | int


def address(training: LocalTraining, seed: jax.Array, worker: Any, index: Any, workers: int) -> Address:
    """The submission that a worker begins as its `index`-th. An agent makes T of them, then the worker plays another."""
    return Address(seed, index // training.submissions * workers + worker, index * workers + worker)


def initial_theta(seed: jax.Array, policy: Policy | TorchPolicy, how: str) -> jax.Array:
    """θ_0 of a trial."""
    return policy.init(randomness.key(seed, Stream.THETA, 0, 0), how)


def draw_psi(at: Address, population: Population) -> Any:
    """ψ of the agent: the same over all its submissions."""
    return population.draw(randomness.key(at.seed, Stream.PSI, at.agent, 0))


def randomize(
    training: LocalTraining, basis: jax.Array | None, coordinates: jax.Array, public: jax.Array, secret: jax.Array
) -> jax.Array:
    """Step 3: Q(z) for the gradient's coordinates z in the offer's subspace, decoded: g̃ = W Q(Wᵀ g). The only door."""
    return lift(basis, training.mechanism.simulate(jnp.where(training.control, 0.0, coordinates), public, secret))


def perturbation(training: LocalTraining, at: Address, episode: jax.Array | int) -> jax.Array:
    """ξ_e (k, *batch) of a local episode: standard normal, the agent's own, and in the next episode its opposite."""
    dim = training.mechanism.dim
    episode, pairs = jnp.asarray(episode), (dim + 1) // 2
    places = PERTURBATIONS + episode // 2 * pairs + jnp.arange(pairs).reshape(-1, *[1] * (at.seed.ndim - 1))
    xi = randomness.normal(*randomness.words(at.seed, Stream.RESET, at.submission, places))[:dim]
    return jnp.where(episode % 2 == 0, xi, -xi)


def action_words(training: LocalTraining, at: Address, tick: jax.Array) -> list[Words]:
    """The random words that decide the action at a tick of a submission."""
    pairs = training.policy.actions.word_pairs
    return [randomness.words(at.seed, Stream.PLAY, at.submission, tick * pairs + i) for i in range(pairs)]


def words_for_report(training: LocalTraining, at: Address) -> tuple[jax.Array, jax.Array]:
    """The public and the secret words of a report, (words, *batch). On a device the secret ones come from the system."""
    public, secret = training.mechanism.simulated_words
    return (
        randomness.vector(at.seed, Stream.PUBLIC, at.submission, public),
        randomness.vector(at.seed, Stream.SECRET, at.submission, secret),
    )


def randomize_score(training: LocalTraining, score: jax.Array, at: Address) -> jax.Array:
    """Step 3 for the score: one noisy boolean. False when no score is sent."""
    if training.score_bit is None:
        return jnp.zeros(score.shape, bool)
    secret = randomness.words(at.seed, Stream.SCORE, at.submission, 0)[0]
    bit: jax.Array = training.score_bit.draw(score >= training.world.score_threshold, secret)
    return bit


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
    """Play local episode `index` of a submission, which has used `ticks` environment steps so far."""
    world, policy = training.played
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
        return (after, live & ~moved.terminated, terminated | ended), (world.observe(after), action, moved.reward, live)

    start = (state, jnp.ones((), bool), jnp.zeros((), bool))
    (_, _, terminated), (seen, actions, rewards, lived) = jax.lax.scan(step, start, jnp.arange(world.max_steps))
    observations = jnp.concatenate([world.observe(state)[:, None], seen.T], axis=1)
    return Episode(observations, jnp.moveaxis(actions, 0, -1), rewards, jnp.sum(lived), terminated)


class Played(NamedTuple):
    """Step 2: what an agent knows after its episodes. Private, all of it."""

    coordinates: jax.Array  # z, the gradient in the offer's subspace
    score: jax.Array  # ζ
    ticks: jax.Array  # environment steps played


@jax.jit
def play(training: LocalTraining, offer: Offer, psi: Any, at: Address, alpha: jax.Array) -> Played:
    """Step 2: play the delivered θ in one's own world, and make one gradient of it."""
    estimator, ticks, episodes = training.estimator, jnp.zeros((), jnp.int32), []
    xi = jnp.stack([perturbation(training, at, index) for index in range(training.episodes)], axis=-1)
    for index in range(training.episodes_played):
        scoring = index >= training.episodes
        theta = offer.theta if scoring else estimator.parameters(*offer, xi[:, index])
        greedy = scoring or training.action == "argmax" or estimator.greedy
        episode = play_episode(training, theta, psi, at, index, ticks, 0.0 if scoring else alpha, greedy)
        ticks = ticks + episode.length
        episodes.append(episode)
    scored = episodes[-1] if training.score == "greedy" else episodes[0]
    score = jnp.sum(jnp.where(jnp.arange(scored.rewards.shape[0]) < scored.length, scored.rewards, 0.0))
    return Played(estimator.coordinates(*offer, episodes[: training.episodes], xi), score, ticks)


@jax.jit
def _submission(training: LocalTraining, offer: Offer, psi: Any, at: Address, received: jax.Array) -> Submission:
    played = play(training, offer, psi, at, schedule.alpha(received, training.alpha_start, training.alpha_decay))
    report = randomize(training, offer.basis, played.coordinates, *words_for_report(training, at))
    return Submission(report, randomize_score(training, played.score, at), played.score, played.ticks)


class Agent:
    """A private agent: its own ψ, and a budget of T submissions that it enforces itself."""

    def __init__(self, training: LocalTraining, first: Address) -> None:
        self._training = training
        self._psi = draw_psi(first, training.population)
        self._submitted = 0

    @property
    def spent(self) -> bool:
        """Whether the whole budget is used."""
        return self._submitted >= self._training.submissions

    def answer(self, offer: Offer, received: int, at: Address) -> Submission:
        """Play the delivered θ, compute one gradient, randomise it. Refuses once the budget is spent."""
        if self.spent:
            raise BudgetSpent(
                f"this agent has made its {self._training.submissions} submission(s) and spent its budget; ask another"
            )
        self._submitted += 1
        submission: Submission = _submission(self._training, offer, self._psi, at, jnp.asarray(received))
        return submission
