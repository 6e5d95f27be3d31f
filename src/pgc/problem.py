"""From a config to the parts of a run: the agents' local training, the aggregator, and the ε that truly holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import jax.numpy as jnp
import optax

from pgc.agent import LocalTraining
from pgc.aggregator import Aggregator
from pgc.budget import split_budget
from pgc.config import TrainConfig
from pgc.errors import PgcError
from pgc.mechanisms import MECHANISMS, ScoreBit, make_mechanism
from pgc.policies import ActorCritic, LossOptions
from pgc.validation import validate
from pgc.worlds import Population, make_world

LAPLACE = ("laplace", "laplace-coordinatewise", "laplace-coordinatewise-wide", "laplace-l2")
PAPER_SIZES = {"none": (0.01, 1), "prs": (1.0, 100)} | dict.fromkeys(LAPLACE, (0.01, 1))
"""C and |B| of the paper."""
DEFAULT_SIZES = {"none": (10.0, 50), "prs": (1.0, 50)} | dict.fromkeys(LAPLACE, (0.01, 50))
"""C and |B| otherwise. With standardised returns |M g| ≫ 1 = C: PRS reports the sign of a projection, direction only."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A config, validated and built: the four steps and how often they are taken."""

    config: TrainConfig
    training: LocalTraining
    aggregator: Aggregator

    @property
    def epsilon_gradient(self) -> float:
        """What the gradients of one agent spend in truth, over all its submissions."""
        guarantee = self.training.mechanism.guarantee
        if guarantee.honest:
            return self.config.epsilon - self.config.score_epsilon
        return guarantee.epsilon * self.config.submissions_per_agent

    @property
    def epsilon_score(self) -> float:
        """What the score bits of one agent spend, over all its submissions."""
        return self.config.score_epsilon

    @property
    def epsilon(self) -> float:
        """The whole loss of one agent in truth, by sequential composition (Theorem 1 of the paper)."""
        if self.training.mechanism.guarantee.honest:
            return self.config.epsilon
        return self.epsilon_gradient + self.epsilon_score


def resolve(config: TrainConfig) -> TrainConfig:
    """Fill in what a config leaves to its preset, so that `config.yaml` says everything."""
    mechanism = "none" if config.epsilon == math.inf else config.mechanism
    score = config.score or ("greedy" if config.local_episodes > 1 else "training")
    paper = config.preset == "paper"
    clip, buffer_size = (PAPER_SIZES if paper else DEFAULT_SIZES)[mechanism]
    world = make_world(config.world)
    return replace(
        config,
        mechanism=mechanism,
        epsilon=math.inf if mechanism == "none" else config.epsilon,
        score=score,
        clip=clip if config.clip is None else config.clip,
        buffer_size=buffer_size if config.buffer_size is None else config.buffer_size,
        population=world.default_population if config.population is None else config.population,
        learning_rate=(0.5 if paper else 0.6) if config.learning_rate is None else config.learning_rate,
    )


def build(config: TrainConfig) -> Problem:
    """Validate a config and make the parts of a run from it. Every refusal says what to do."""
    validate(config)
    if config.mechanism not in MECHANISMS:
        raise PgcError(f"unknown mechanism '{config.mechanism}'; choose one of: {', '.join(MECHANISMS)}")
    config = resolve(config)
    world = make_world(config.world)
    policy = ActorCritic(
        observation_dim=world.observation_dim,
        num_actions=world.num_actions,
        hidden=config.hidden,
        biases=config.biases,
    )
    gradient_epsilon, score_epsilon = split_budget(config.epsilon, config.score_epsilon, config.submissions_per_agent)
    assert config.clip is not None and config.buffer_size is not None
    assert config.population is not None and config.learning_rate is not None
    mechanism = make_mechanism(
        config.mechanism, dim=policy.dim, epsilon=gradient_epsilon, clip=config.clip, reduced_dim=config.reduced_dim
    )
    score_bit = ScoreBit(epsilon=score_epsilon) if score_epsilon else None
    training = LocalTraining(
        world=world,
        population=Population.parse(world, config.population),
        policy=policy,
        loss=LossOptions(
            discount=config.discount,
            value_weight=config.value_weight,
            entropy_weight=config.entropy_weight,
            reward=config.reward,
            bootstrap=config.bootstrap,
            reduction=config.reduction,
            standardize=config.standardize,
        ),
        mechanism=mechanism,
        score_bit=score_bit,
        submissions=config.submissions_per_agent,
        episodes=config.local_episodes,
        action=config.action,
        alpha_start=config.alpha_start,
        alpha_decay=config.alpha_decay,
        score="greedy" if config.score == "greedy" else "training",
        control=config.control,
    )
    aggregator = Aggregator(
        optimizer=_make_optimizer(config.optimizer, config.learning_rate),
        buffer_size=config.buffer_size,
        uses_per_report=config.uses_per_report,
        max_staleness=config.max_staleness,
        average_from=int(config.average_from * config.submissions),
    )
    return Problem(config=config, training=training, aggregator=aggregator)


@cache  # one object for one setting, so that what was compiled with it is found again
def _make_optimizer(name: str, learning_rate: float) -> optax.GradientTransformation:
    factory = getattr(optax, name, None)
    try:
        made = factory(learning_rate=learning_rate) if callable(factory) else None
        if isinstance(made, optax.GradientTransformation):
            made.update(jnp.zeros(2), made.init(jnp.zeros(2)), jnp.zeros(2))  # some want more than a gradient
    except TypeError:
        made = None
    if not isinstance(made, optax.GradientTransformation):
        raise PgcError(f"'{name}' is not an optimiser of optax with a learning rate; try sgd, adam or rmsprop")
    return made
