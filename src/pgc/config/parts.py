"""Makes the parts that a config names: policy, recipe, subspace and optimiser."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import jax.numpy as jnp
import optax

from pgc.config import rules
from pgc.config.config import TrainConfig
from pgc.config.start import directions_of
from pgc.deliver.subspace import (
    FeatureSubspace,
    LearntSubspace,
    RandomSubspace,
    Subspace,
    TangentSubspace,
)
from pgc.errors import PgcError, in_one_line, load
from pgc.local_training.policies.actor_critic import ActorCritic, Policy
from pgc.local_training.policies.convolutional import convolutional
from pgc.local_training.policies.own import Own, OwnPolicy
from pgc.local_training.policies.torch_module import OwnTorch, TorchPolicy
from pgc.local_training.recipe import LossOptions, Recipe
from pgc.local_training.worlds.base import World
from pgc.spaces import Actions, Bounds, Gaussian

MOST_FEATURES = 4096
"""The most dimensions that a linear or quadratic subspace may have."""


def default_policy(world: World) -> str:
    """Returns the policy that is used where none is given."""
    return "actor-critic" if world.image is None else "convolutional"


def make_policy(config: TrainConfig, world: World) -> Policy | TorchPolicy:
    """Returns the policy that a config names, for this world."""
    bounds = world.observation_bounds if config.normalize else None
    name = config.policy or default_policy(world)
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
        hidden=(rules.UNITS,) if config.hidden is None else config.hidden,
        activation=config.activation,
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


def feature_subspace(
    policy: Policy, bounds: Bounds, degree: int, constant: bool = False
) -> Subspace:
    """Returns the subspace of features up to a degree, for a policy in JAX."""
    if isinstance(policy, ActorCritic):
        return FeatureSubspace(policy=policy, bounds=bounds, degree=degree, constant=constant)
    assert isinstance(policy, OwnPolicy)
    return TangentSubspace(policy=policy, bounds=bounds, degree=degree)


def make_recipe(config: TrainConfig, world: World, policy: Policy | TorchPolicy) -> Recipe:
    """Returns the recipe that a resolved config describes: what agents do with θ."""
    known, actions = isinstance(policy, ActorCritic), world.actions
    return Recipe(
        **{f.name: getattr(config, f.name) for f in fields(LossOptions)},
        **world.in_recipe,
        image=world.image,
        hidden=(config.hidden or ()) if known else (),
        activation=config.activation if known else "relu",
        biases=config.biases if known else False,
        normalize=config.normalize,
        estimator="evolution" if config.estimator == "evolution" else "policy-gradient",
        spread=1.0 if config.spread is None else config.spread,
        std=actions.std if isinstance(actions, Gaussian) else 0.5,
        action=config.action,
        score="greedy" if config.score == "greedy" else "training",
    )


def make_subspace(
    config: TrainConfig, policy: Policy | TorchPolicy, bounds: Bounds
) -> Subspace | None:
    """Returns the subspace that a config names; None if the whole gradient is reported."""
    if config.subspace in (None, "full"):
        return None
    if config.subspace == "learnt":
        return LearntSubspace(policy=policy, directions=directions_of(config, policy.dim))
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
    made = feature_subspace(
        policy, bounds, 1 if config.subspace == "linear" else 2, bool(config.constant)
    )
    if made.dim > MOST_FEATURES:
        raise PgcError(
            f"a {config.subspace} subspace would have {made.dim:,} dimensions; use --subspace full "
            "or random"
        )
    return made


@cache  # one object for one setting, so that what was compiled with it is found again
def make_optimizer(name: str) -> optax.GradientTransformation:
    """Returns the optimiser of that name, with a learning rate of 1."""
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
