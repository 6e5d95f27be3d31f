"""Fills in what a config leaves to its preset, to the rules and to its world.

Policy and subspace are made on the way, because rules depend on their dimensions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pgc.config import rules
from pgc.config.config import TrainConfig
from pgc.config.parts import (
    default_policy,
    feature_subspace,
    make_policy,
    make_subspace,
)
from pgc.config.presets import DEFAULT_BUFFER, PAPER_LEARNING_RATE
from pgc.config.start import with_start
from pgc.deliver.subspace import Subspace
from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.local_training.policies.actor_critic import ActorCritic, Policy
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.local_training.worlds.base import World
from pgc.local_training.worlds.bounds import bounds_text, parse_bounds
from pgc.local_training.worlds.registry import WORLDS, world_of
from pgc.randomise.budget import split_budget
from pgc.randomise.mechanisms.registry import find_mechanism
from pgc.spaces import Bounds


class Resolved(NamedTuple):
    """A config with everything filled in, and the parts that were made on the way."""

    config: TrainConfig
    """The config, with everything filled in."""
    world: World
    policy: Policy | TorchPolicy
    subspace: Subspace | None
    gradient_epsilon: float
    """The ε of the gradient in one report."""
    score_epsilon: float
    """The ε of the noisy boolean in one report; 0 sends none."""


def resolve(config: TrainConfig) -> TrainConfig:
    """Returns the config with everything filled in that it leaves to its preset and to the rules.

    A `config.yaml` that is written from it therefore says everything.
    """
    return resolve_with_parts(config).config


def resolve_with_parts(config: TrainConfig) -> Resolved:
    """Returns the config with everything filled in, and the parts that were made for that."""
    config = _with_scales(with_start(config))
    world = world_of(config)
    config, epsilon, score_epsilon = _privacy(config)
    config, policy, subspace = _network(config, world, epsilon)
    config = _of_world(_numbers(config, epsilon, policy, subspace), world)
    return Resolved(config, world, policy, subspace, epsilon, score_epsilon)


def resolve_without_policy(config: TrainConfig) -> tuple[TrainConfig, float, float]:
    """Returns a config for a policy that only the devices know, with everything filled in that the
    aggregator needs, and the ε of the gradient and of the noisy boolean in one report.
    """
    epsilon, score_epsilon = split_budget(
        config.epsilon, config.score_epsilon, config.submissions_per_agent
    )
    return _numbers(replace(config, subspace="full"), epsilon, None, None), epsilon, score_epsilon


def filled(config: TrainConfig, **values: Any) -> TrainConfig:
    """Returns the config with these values for the fields that are None."""
    missing = {name: value for name, value in values.items() if getattr(config, name) is None}
    return replace(config, **missing)


def _privacy(config: TrainConfig) -> tuple[TrainConfig, float, float]:
    """Returns the config, with no mechanism if there is no privacy and the other way round, and the
    ε of the gradient and of the noisy boolean in one report.
    """
    find_mechanism(config.mechanism)  # an unknown one is refused, also where it is not used
    if config.epsilon == math.inf or config.mechanism == "none":
        config = replace(config, mechanism="none", epsilon=math.inf)
    return config, *split_budget(config.epsilon, config.score_epsilon, config.submissions_per_agent)


def _network(
    config: TrainConfig, world: World, epsilon: float
) -> tuple[TrainConfig, Policy | TorchPolicy, Subspace | None]:
    """Chooses the subspace, and a network that can express what lies in it; makes both."""
    box, policy = world.observation_bounds, make_policy(config, world)
    if config.subspace is None:
        config = replace(config, subspace=_suitable_subspace(policy, box, epsilon))
    linear = config.subspace == "linear"
    config = filled(
        config,
        policy=default_policy(world),
        constant=linear and _suitable_constant(config, policy, world),
        hidden=rules.hidden(world.observation_dim, linear),
    )
    config = replace(config, biases=config.biases or bool(config.constant))
    policy = make_policy(config, world)
    return config, policy, make_subspace(config, policy, box)


def _numbers(
    config: TrainConfig,
    epsilon: float,
    policy: Policy | TorchPolicy | None,
    subspace: Subspace | None,
) -> TrainConfig:
    """Fills in the numbers that follow from ε and from the dimension of a report."""
    paper, kind = config.preset == "paper", find_mechanism(config.mechanism)
    directions = 0 if subspace is None else subspace.dim
    learnt = config.subspace == "learnt"
    config = filled(
        config,
        clip=kind.paper_clip if paper else kind.clip_in(directions),
        local_episodes=rules.local_episodes(epsilon, directions, learnt),
        buffer_size=kind.paper_buffer if paper else DEFAULT_BUFFER,
        output_cap=None if policy is None else _suitable_cap(policy),
        spread=rules.spread(None if subspace is None else subspace.output_change, learnt),
    )
    assert config.local_episodes is not None and config.buffer_size is not None
    cap = math.inf if config.output_cap is None else config.output_cap
    return filled(
        config,
        estimator=rules.estimator(directions, config.local_episodes),
        score="greedy" if config.local_episodes > 1 else "training",
        step_decay=rules.step_decay(epsilon, cap, directions),
        learning_rate=PAPER_LEARNING_RATE
        if paper
        else rules.learning_rate(epsilon, config.buffer_size, directions),
    )


def _of_world(config: TrainConfig, world: World) -> TrainConfig:
    """Fills in what is the world's, and states what was found out about one not built in."""
    config = filled(
        config, discount=rules.discount(world.max_steps), population=world.default_population
    )
    if world.name in WORLDS:
        return config
    return replace(
        config,
        max_steps=world.max_steps,
        threshold=world.score_threshold,
        bounds=bounds_text(world.observation_bounds),
    )


def _with_scales(config: TrainConfig) -> TrainConfig:
    """Returns the config with the box of a built-in world in good play, where it gives no other.

    The box is stated in the config, so that a service publishes it and later versions of pgc read
    a run with the scales that it was trained with.
    """
    usual = WORLDS[config.world].usual_bounds if config.world in WORLDS else None
    if config.scales == "limits" or usual is None:
        return config
    given = parse_bounds(config.bounds, len(usual), config.world)
    return replace(config, bounds=bounds_text(tuple(given.get(i, b) for i, b in enumerate(usual))))


def _suitable_subspace(
    policy: Policy | TorchPolicy, bounds: Bounds, epsilon: float
) -> Literal["full", "linear", "quadratic"]:
    """Returns the subspace that is used where none is given.

    It is the whole gradient for a policy in PyTorch, or one whose observations have very many
    numbers. Pictures have no quadratic features.
    """
    if isinstance(policy, TorchPolicy):
        return "full"
    if bounds and feature_subspace(policy, bounds, 1).dim > MOST_DIRECTIONS:
        return "full"
    if not bounds:
        return "linear"
    return rules.subspace(epsilon, feature_subspace(policy, bounds, 2).dim)


def _suitable_constant(config: TrainConfig, policy: Policy | TorchPolicy, world: World) -> bool:
    """Returns whether a linear subspace has a constant where nobody says so.

    A network that came with its numbers (a start) is not given biases that it did not have.
    """
    known = isinstance(policy, ActorCritic) and (config.start is None or config.biases)
    return known and (world.offset or rules.constant(world.observation_bounds))


def _suitable_cap(policy: Policy | TorchPolicy) -> float:
    """Returns the cap on the policy's outputs that is used where none is given."""
    return rules.output_cap(policy.actions) if isinstance(policy, ActorCritic) else math.inf
