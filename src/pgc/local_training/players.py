"""Who plays offers on a device: `NumpyPlayer`, in any world of pgc, or `JaxPlayer`, in simulated
homes in which nobody lives.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.local_training import definition
from pgc.local_training.definition import LocalTraining
from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.local_training.numpy_player import NumpyPlayer
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.recipe import Recipe
from pgc.local_training.worlds.base import CompiledWorld, World
from pgc.local_training.worlds.host import HostWorld, plain_step
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import compiled
from pgc.numerics.randomness import Address
from pgc.wire import Offer
from pgc.wire.values import Delivery


def recipe_for(world: World, card: Any) -> Recipe:
    """Returns the recipe that a service publishes, completed for this world."""
    return Recipe.read(card, **world.in_recipe)


@dataclass(frozen=True)
class JaxPlayer:
    """Plays offers in a world of JAX with its own ψ, by the definition of step 2, for a simulated
    `Device`.

    It is fast, and for homes in which nobody lives: how much memory and time an offer takes is not
    bounded, as it is for a real device (`NumpyPlayer`).
    """

    world: CompiledWorld
    psi: Any
    recipe: Recipe

    def objection(self, offer: Offer) -> str | None:
        """Says why this offer cannot be played here, from what is public; None if it can."""
        fits = offer.theta.size == self.recipe.dim and not (
            self.recipe.evolves and offer.query.dim > MOST_DIRECTIONS
        )
        return None if fits else "the offer's policy is not one that this device can play"

    def play(self, offer: Offer, stop: Callable[[], bool] | None = None) -> tuple[np.ndarray, bool]:
        """Returns the coordinates z to randomise, and whether the score reached Θ."""
        training = _training(self.world, self.recipe, offer.query.dim, offer.episodes)
        at = Address(jnp.asarray([secrets.randbits(32), secrets.randbits(32)], jnp.uint32), 0, 0)
        delivery = Delivery(
            jnp.asarray(offer.theta), None if offer.basis is None else jnp.asarray(offer.basis)
        )
        played = definition.play(
            training, delivery, self.psi, at, jnp.asarray(offer.alpha, jnp.float32)
        )
        return np.asarray(played.coordinates, float), bool(
            played.score >= self.recipe.score_threshold
        )


@lru_cache(8)
def _training(world: World, recipe: Recipe, dim: int, episodes: int) -> LocalTraining:
    """Returns what the recipe says, as a simulation has it.

    What is randomised, and how, is the device's affair.
    """
    return LocalTraining(
        world=world,
        population=Population(base=world.default_psi, variations=()),
        policy=ActorCritic.of(recipe, world.actions),
        recipe=recipe,
        dim=dim,
        episodes=episodes,
    )


def make_simulated_player(world: World, psi: Any, recipe: Recipe) -> JaxPlayer | NumpyPlayer:
    """Returns what plays offers on a simulated device, as fast as this machine can.

    How long it plays is then no secret, because nobody's world is at stake.
    """
    if world.on_host:
        return make_player(world, psi, recipe, fixed_steps=False)
    return JaxPlayer(compiled(world), psi, recipe)


def make_player(world: World, psi: Any, recipe: Recipe, *, fixed_steps: bool = True) -> NumpyPlayer:
    """Returns what plays offers on a real device, in a world with this ψ."""
    environment: HostEnvironment | JaxEnvironment
    if isinstance(world, HostWorld):
        environment = HostEnvironment(world, psi)
    else:
        environment = JaxEnvironment(compiled(world), psi)
        environment.warm_up()
    return NumpyPlayer(environment, recipe, fixed_steps=fixed_steps)


@dataclass
class JaxEnvironment:
    """A built-in world as `NumpyPlayer` wants it: one step at a time."""

    world: CompiledWorld
    psi: Any
    _key: jax.Array = field(default_factory=lambda: jax.random.key(secrets.randbits(32)))
    _state: Any = None

    def __post_init__(self) -> None:
        """Gives ψ one type, so that every ψ is played by the same program."""
        self.psi = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), self.psi)

    def warm_up(self) -> None:
        """Compiles reset and step, in the usual world: the first slot must not be spent on it."""
        usual = JaxEnvironment(self.world, self.world.default_psi)
        usual.reset()
        discrete = hasattr(self.world.actions, "count")
        usual.step(0 if discrete else np.zeros(self.world.actions.outputs, np.float32))

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode, and returns its first observation."""
        self._key, self._state, seen = _jax_reset(self.world, self._key, self.psi)
        return np.asarray(seen), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated and truncated of one step."""
        self._key, self._state, seen, reward, terminated = _jax_step(
            self.world, self._key, self._state, jnp.asarray(action), self.psi
        )
        return np.asarray(seen), float(reward), bool(terminated), False, {}


@partial(jax.jit, static_argnums=0)
def _jax_reset(world: CompiledWorld, key: jax.Array, psi: Any) -> Any:
    key, now = jax.random.split(key)
    state = world.reset(now, psi)
    return key, state, world.observe(state)


@partial(jax.jit, static_argnums=0)
def _jax_step(world: CompiledWorld, key: jax.Array, state: Any, action: jax.Array, psi: Any) -> Any:
    key, now = jax.random.split(key)
    moved = world.step(now, state, action, psi)
    return key, moved.state, world.observe(moved.state), moved.reward, moved.terminated


@dataclass
class HostEnvironment:
    """A Gymnasium environment as `NumpyPlayer` wants it: vectors in and out, whatever its spaces
    are.

    It is made when the first episode begins, so after the charge and within a slot: how long that
    takes, and whether it can be made at all, depends on ψ, which is private.
    """

    world: HostWorld
    psi: Any

    @cached_property
    def env(self) -> Any:
        """The environment T(ψ) of this device."""
        return self.world.make(self.psi)

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Returns the first observation, as a vector."""
        return self.world.observation.flat(self.env.reset()[0]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated and truncated of one step."""
        return *plain_step(self.env, self.world.observation, self.world.acting, action), {}
