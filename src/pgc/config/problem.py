"""Builds the four steps of a run from a config, and states the ε that really holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Literal, NamedTuple

import jax.numpy as jnp
import optax

from pgc.config import rules
from pgc.config.config import TrainConfig
from pgc.config.presets import DEFAULT_BUFFER, PAPER_LEARNING_RATE
from pgc.config.validation import validate
from pgc.deliver.schedule import Schedule
from pgc.deliver.subspace import FeatureSubspace, RandomSubspace, Subspace, TangentSubspace
from pgc.errors import PgcError, in_one_line, load
from pgc.local_training.definition import LocalTraining
from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.local_training.policies.actor_critic import ActorCritic, Policy
from pgc.local_training.policies.convolutional import convolutional
from pgc.local_training.policies.own import Own, OwnPolicy
from pgc.local_training.policies.torch_module import OwnTorch, TorchPolicy
from pgc.local_training.recipe import LossOptions, Recipe
from pgc.local_training.worlds.base import CompiledWorld, World
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import WORLDS, world_of
from pgc.randomise.budget import split_budget
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.registry import find_mechanism, make_mechanism
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.simulated import Randomiser
from pgc.spaces import Actions, Bounds, Categorical, Gaussian
from pgc.update.aggregator import Aggregator
from pgc.update.cap import OutputCap

MOST_FEATURES = 4096
"""The most dimensions that a linear or quadratic subspace may have."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A config, validated and built: the four steps and how often they are taken."""

    config: TrainConfig
    schedule: Schedule
    """Step 1: the schedule of α."""
    training: LocalTraining
    """Step 2: the world, the policy, and how agents make a gradient."""
    randomiser: Randomiser
    """Step 3: the mechanism, and the noisy boolean if there is one."""
    aggregator: Aggregator
    """Step 4: the update rule."""

    @property
    def epsilon_gradient(self) -> float:
        """The ε that the gradients of one agent really spend, over all its submissions."""
        guarantee = self.randomiser.mechanism.guarantee
        if guarantee.honest:
            return self.config.epsilon - self.config.score_epsilon
        return guarantee.epsilon * self.config.submissions_per_agent

    @property
    def epsilon_score(self) -> float:
        """The ε that the noisy booleans of one agent spend, over all its submissions."""
        return self.config.score_epsilon

    @property
    def epsilon(self) -> float:
        """The ε that one agent really spends in all, by sequential composition (Theorem 1 of the
        paper).
        """
        if self.randomiser.mechanism.guarantee.honest:
            return self.config.epsilon
        return self.epsilon_gradient + self.epsilon_score


class Parts(NamedTuple):
    """The parts that are made, once each, while a config is resolved."""

    config: TrainConfig
    """The config, with everything filled in."""
    world: World
    policy: Policy | TorchPolicy
    subspace: Subspace | None


def resolve(config: TrainConfig) -> TrainConfig:
    """Returns the config with everything filled in that it leaves to its preset and to the rules.

    A `config.yaml` that is written from it therefore says everything.
    """
    return _resolved(config, world_of(config)).config


def _resolved(config: TrainConfig, world: World) -> Parts:
    paper, epsilon = config.preset == "paper", config.epsilon
    mechanism = "none" if epsilon == math.inf else config.mechanism
    kind = find_mechanism(mechanism)
    epsilon = math.inf if mechanism == "none" else epsilon
    per_report, _ = split_budget(epsilon, config.score_epsilon, config.submissions_per_agent)
    where, policy = config.subspace, make_policy(config, world)
    if where is None:
        where = _suitable_subspace(policy, world.observation_bounds, per_report)
    subspace = _make_subspace(replace(config, subspace=where), policy, world.observation_bounds)
    directions = 0 if subspace is None else subspace.dim
    episodes = (
        rules.local_episodes(per_report, directions)
        if config.local_episodes is None
        else config.local_episodes
    )
    buffer_size = (
        (kind.paper_buffer if paper else DEFAULT_BUFFER)
        if config.buffer_size is None
        else config.buffer_size
    )
    rate = (
        PAPER_LEARNING_RATE if paper else rules.learning_rate(per_report, buffer_size, directions)
    )
    cap = _suitable_cap(policy) if config.output_cap is None else config.output_cap
    if world.name not in WORLDS:  # state what was found out about a world that is not built in
        bounds = tuple(
            f"{i}={low!r}:{high!r}" for i, (low, high) in enumerate(world.observation_bounds)
        )
        config = replace(
            config, max_steps=world.max_steps, threshold=world.score_threshold, bounds=bounds
        )
    config = replace(
        config,
        mechanism=mechanism,
        epsilon=epsilon,
        policy=config.policy or ("actor-critic" if world.image is None else "convolutional"),
        clip=(kind.paper_clip if paper else kind.default_clip)
        if config.clip is None
        else config.clip,
        subspace=where,
        local_episodes=episodes,
        estimator=config.estimator or rules.estimator(directions, episodes),
        score=config.score or ("greedy" if episodes > 1 else "training"),
        output_cap=cap,
        step_decay=rules.step_decay(per_report, cap)
        if config.step_decay is None
        else config.step_decay,
        buffer_size=buffer_size,
        population=world.default_population if config.population is None else config.population,
        learning_rate=rate if config.learning_rate is None else config.learning_rate,
    )
    return Parts(config, world, policy, subspace)


@dataclass(frozen=True, kw_only=True)
class OwnProblem:
    """A config, validated and built, for a policy that only the devices know.

    The aggregator needs the length of θ, and nothing else about the policy.
    """

    config: TrainConfig
    mechanism: Mechanism
    score_bit: ScoreBit | None
    aggregator: Aggregator


def build_own(config: TrainConfig) -> OwnProblem:
    """Returns the aggregator's part of a run whose θ has `config.own_policy` numbers."""
    validate(config)
    kind = find_mechanism(config.mechanism)
    dim = config.own_policy
    assert dim is not None
    if config.subspace not in (None, "full"):
        raise PgcError(
            "for a policy that only the devices know, use --subspace full (the whole gradient)"
        )
    gradient_epsilon, score_epsilon = split_budget(
        config.epsilon, config.score_epsilon, config.submissions_per_agent
    )
    buffer_size = DEFAULT_BUFFER if config.buffer_size is None else config.buffer_size
    config = replace(
        config,
        subspace="full",
        clip=kind.default_clip if config.clip is None else config.clip,
        local_episodes=rules.local_episodes(gradient_epsilon, 0)
        if config.local_episodes is None
        else config.local_episodes,
        buffer_size=buffer_size,
        step_decay=math.inf if config.step_decay is None else config.step_decay,
        learning_rate=rules.learning_rate(gradient_epsilon, buffer_size, 0)
        if config.learning_rate is None
        else config.learning_rate,
    )
    mechanism = _make_mechanism(config, dim, gradient_epsilon)
    return OwnProblem(
        config=config,
        mechanism=mechanism,
        score_bit=ScoreBit(epsilon=score_epsilon) if score_epsilon else None,
        aggregator=_make_aggregator(config, mechanism, None, None),
    )


def build(config: TrainConfig) -> Problem:
    """Validates a config and returns the problem made from it. Every refusal says what to do."""
    world = validate(config)
    if config.own_policy is not None:
        raise PgcError("a policy that only the devices know cannot be simulated; use pgc serve")
    find_mechanism(config.mechanism)
    config, world, policy, subspace = _resolved(config, world)
    if isinstance(policy, TorchPolicy) and isinstance(world, CompiledWorld):
        raise PgcError(
            f"a PyTorch policy plays on the host, not in {world.name}; use a Gymnasium world "
            "(--world gymnasium:ID)"
        )
    gradient_epsilon, score_epsilon = split_budget(
        config.epsilon, config.score_epsilon, config.submissions_per_agent
    )
    assert config.population is not None and config.local_episodes is not None
    assert config.output_cap is not None
    mechanism = _make_mechanism(
        config, policy.dim if subspace is None else subspace.dim, gradient_epsilon
    )
    if config.estimator == "evolution" and mechanism.dim > MOST_DIRECTIONS:
        raise PgcError(
            f"evolution can try at most {MOST_DIRECTIONS} directions, not {mechanism.dim}; use a "
            "smaller subspace, or --estimator policy-gradient"
        )
    training = LocalTraining(
        world=world,
        population=Population.parse(world, config.population),
        policy=policy,
        recipe=make_recipe(config, world, policy),
        dim=mechanism.dim,
        episodes=config.local_episodes,
    )
    randomiser = Randomiser(
        mechanism=mechanism,
        score_bit=ScoreBit(epsilon=score_epsilon) if score_epsilon else None,
        submissions_per_agent=config.submissions_per_agent,
        control=config.control,
    )
    bounds = world.observation_bounds
    cap = None
    if config.output_cap < math.inf:
        if not isinstance(policy, ActorCritic):
            raise PgcError(
                "output_cap scales the head of an actor-critic network; for another policy, leave "
                "it out"
            )
        cap = OutputCap(policy=policy, bounds=bounds, most=config.output_cap)
    return Problem(
        config=config,
        schedule=Schedule(config.alpha_start, config.alpha_decay),
        training=training,
        randomiser=randomiser,
        aggregator=_make_aggregator(config, mechanism, subspace, cap),
    )


def _make_mechanism(config: TrainConfig, dim: int, epsilon: float) -> Mechanism:
    assert config.clip is not None
    return make_mechanism(
        config.mechanism,
        dim=dim,
        epsilon=epsilon,
        clip=config.clip,
        lift=config.lift,
        reduced_dim=config.reduced_dim,
        unbiased=config.unbiased,
        code_size=config.code_size,
    )


def _make_aggregator(
    config: TrainConfig, mechanism: Mechanism, subspace: Subspace | None, cap: OutputCap | None
) -> Aggregator:
    assert config.buffer_size is not None and config.learning_rate is not None
    assert config.step_decay is not None
    if config.trim and int(config.trim * config.buffer_size) < 1:
        raise PgcError(
            f"trim {config.trim:g} of a buffer of {config.buffer_size} leaves out nothing; enlarge "
            "one of them"
        )
    return Aggregator(
        optimizer=_make_optimizer(config.optimizer),
        learning_rate=config.learning_rate,
        buffer_size=config.buffer_size,
        uses_per_report=config.uses_per_report,
        max_staleness=config.max_staleness,
        average_from=int(config.average_from * config.submissions),
        trim=config.trim,
        held=config.buffer_size if config.trim else 0,
        step_decay=config.step_decay,
        report_norm=math.inf if config.report_norm is None else config.report_norm,
        report_length=_longest_report(mechanism) if config.report_norm is None else None,
        subspace=subspace,
        cap=cap,
    )


def _longest_report(mechanism: Mechanism) -> float | None:
    """Returns the length to which reports are shortened, where they differ in length: so many times
    the root mean square length of an honest one.
    """
    squared = mechanism.error(0.0)
    differ = not mechanism.one_length and 0 < squared < math.inf
    return rules.LONGEST_REPORT * math.sqrt(squared) if differ else None


def make_policy(config: TrainConfig, world: World) -> Policy | TorchPolicy:
    """Returns the policy that a config names, for this world."""
    bounds = world.observation_bounds if config.normalize else None
    name = config.policy or ("actor-critic" if world.image is None else "convolutional")
    if name == "convolutional":
        if world.image is None:
            raise PgcError(
                f"a convolutional policy is for pictures; an observation of {world.name} is a "
                "vector"
            )
        return _of_pictures(world.image, world.actions, bounds)
    if name != "actor-critic":
        return _of_ones_own(name, world.image or (world.observation_dim,), world.actions, bounds)
    if world.image is not None:
        raise PgcError(
            f"an observation of {world.name} is a picture: use --policy convolutional, or one of "
            "your own"
        )
    return ActorCritic(
        observation_dim=world.observation_dim,
        actions=world.actions,
        hidden=config.hidden,
        biases=config.biases,
        bounds=bounds,
    )


@cache  # one object for one setting, so that what was compiled with it is found again
def _of_pictures(image: tuple[int, int, int], actions: Actions, bounds: Bounds | None) -> OwnPolicy:
    return OwnPolicy(convolutional(image, actions.outputs), image, actions, bounds)


@cache
def _of_ones_own(
    name: str, shape: tuple[int, ...], actions: Actions, bounds: Bounds | None
) -> OwnPolicy | TorchPolicy:
    if ":" not in name:
        raise PgcError(
            f"unknown policy '{name}'; choose actor-critic, convolutional, or MODULE:NAME of your "
            "own"
        )
    make = load(name, "policy")
    try:
        made = make(shape, actions.outputs) if callable(make) else None
    except PgcError:
        raise
    except Exception as error:
        raise PgcError(f"{name}({shape}, {actions.outputs}) raised {in_one_line(error)}") from None
    if isinstance(made, OwnTorch):
        return TorchPolicy(made, shape, actions, bounds)
    if not isinstance(made, Own):
        raise PgcError(
            f"{name}({shape}, {actions.outputs}) is not a policy; return the result of one of the "
            "from_… functions of pgc.policies.own"
        )
    return OwnPolicy(made, shape, actions, bounds)


def _suitable_subspace(
    policy: Policy | TorchPolicy, bounds: Bounds, epsilon: float
) -> Literal["full", "linear", "quadratic"]:
    """Returns the subspace that is used where none is given.

    It is the whole gradient for a policy in PyTorch, or one whose observations have very many
    numbers. Pictures have no quadratic features.
    """
    if isinstance(policy, TorchPolicy):
        return "full"
    if bounds and _feature_subspace(policy, bounds, 1).dim > MOST_DIRECTIONS:
        return "full"
    if not bounds:
        return "linear"
    return rules.subspace(epsilon, _feature_subspace(policy, bounds, 2).dim)


def _suitable_cap(policy: Policy | TorchPolicy) -> float:
    return rules.output_cap(policy.actions) if isinstance(policy, ActorCritic) else math.inf


def _feature_subspace(policy: Policy, bounds: Bounds, degree: int) -> Subspace:
    if isinstance(policy, ActorCritic):
        return FeatureSubspace(policy=policy, bounds=bounds, degree=degree)
    assert isinstance(policy, OwnPolicy)
    return TangentSubspace(policy=policy, bounds=bounds, degree=degree)


def make_recipe(config: TrainConfig, world: World, policy: Policy | TorchPolicy) -> Recipe:
    """Returns the recipe that a resolved config describes: what agents do with θ."""
    known, actions = isinstance(policy, ActorCritic), world.actions
    return Recipe(
        **{f.name: getattr(config, f.name) for f in fields(LossOptions)},
        bounds=tuple((float(low), float(high)) for low, high in world.observation_bounds),
        actions=actions.count
        if isinstance(actions, Categorical)
        else tuple(zip(actions.low, actions.high, strict=True)),
        max_steps=world.max_steps,
        score_threshold=world.score_threshold,
        image=world.image,
        hidden=config.hidden if known else (),
        biases=config.biases if known else False,
        normalize=config.normalize,
        estimator="evolution" if config.estimator == "evolution" else "policy-gradient",
        spread=config.spread,
        std=actions.std if isinstance(actions, Gaussian) else 0.5,
        action=config.action,
        score="greedy" if config.score == "greedy" else "training",
    )


def _make_subspace(
    config: TrainConfig, policy: Policy | TorchPolicy, bounds: Bounds
) -> Subspace | None:
    if config.subspace in (None, "full"):
        return None
    if config.subspace == "random":
        if config.subspace_dim > policy.dim:
            raise PgcError(
                f"subspace_dim must be at most d = {policy.dim}, not {config.subspace_dim}"
            )
        return RandomSubspace(policy=policy, size=config.subspace_dim)
    if isinstance(policy, TorchPolicy):
        raise PgcError(
            f"the {config.subspace} subspace needs a policy in JAX; use --subspace full or random"
        )
    if isinstance(policy, ActorCritic) and config.initial == "zeros" and config.hidden:
        raise PgcError(
            f"a {config.subspace} subspace moves the policy's head alone, whose inputs are all 0 "
            "with --initial zeros; use another --initial"
        )
    made = _feature_subspace(policy, bounds, 1 if config.subspace == "linear" else 2)
    if made.dim > MOST_FEATURES:
        raise PgcError(
            f"a {config.subspace} subspace would have {made.dim:,} dimensions; use --subspace full "
            "or random"
        )
    return made


@cache  # one object for one setting, so that what was compiled with it is found again
def _make_optimizer(name: str) -> optax.GradientTransformation:
    factory = load(name, "optimiser") if ":" in name else getattr(optax, name, None)
    try:
        made = factory(learning_rate=1.0) if callable(factory) else None
        if isinstance(made, optax.GradientTransformation):
            # some optimisers need more than a gradient, and fail here
            made.update(jnp.zeros(2), made.init(jnp.zeros(2)), jnp.zeros(2))
    except TypeError:
        made = None
    if not isinstance(made, optax.GradientTransformation):
        raise PgcError(
            f"'{name}' is not an optimiser of optax with a learning rate; try sgd, adam, rmsprop, "
            "or MODULE:NAME of your own"
        )
    return made
