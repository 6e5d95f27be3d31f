"""The devices that `pgc join` runs, each with its own ψ, token and ledger.

There is one real device, or there are many simulated ones, which play in compiled programs but
charge real ledgers and send real reports.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.device.device import Device
from pgc.device.ledger import Ledger, LedgerError
from pgc.errors import PgcError
from pgc.local_training import definition
from pgc.local_training.definition import LocalTraining
from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.local_training.numpy_player import NumpyPlayer
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.recipe import Recipe
from pgc.local_training.worlds.base import CompiledWorld, World
from pgc.local_training.worlds.host import HostWorld
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import compiled
from pgc.numerics.randomness import Address, trial_seed
from pgc.service.client import ServiceClient, run_device
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


class Joined(NamedTuple):
    """What became of some devices, in numbers."""

    accepted: int
    ended: Counter[str]
    """Why each of them ended."""
    failed: int
    """Number of devices that ended with an error."""
    left: int
    """What their ledgers still have together, in nano-ε."""


@dataclass
class Fleet:
    """Devices that live in one kind of world, each with its own ψ, token and ledger."""

    connect: Callable[[str], ServiceClient]
    """A connection with a token."""
    tokens: Sequence[str]
    ledgers: Sequence[Path]
    limit: float | None
    """ε of new ledgers, for simulated devices that have none; None: a missing one is an error."""
    device_id: str | None
    """The name of a device that was provisioned under one."""
    slot: float
    """Seconds of a device's slots; 0 for simulated devices, whose time tells nothing."""
    simulated: bool
    """Whether nobody lives in these homes: they then play compiled, as fast as they can."""
    world: World
    population: Population
    recipe: Recipe
    seed: int
    """The seed from which the ψ of each device is drawn."""
    accepts: Sequence[str]
    """Names of the mechanisms that the devices are willing to use."""
    say: Callable[[int, int], None]
    """Told how many devices have ended, and how many reports were accepted."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, at_once: int) -> Joined:
        """Runs all devices, `at_once` of them at a time."""
        ended: Counter[str] = Counter()
        accepted = left = done = failed = 0

        def one(n: int) -> None:
            nonlocal accepted, left, done, failed
            if self._stop.is_set():
                return
            error = None
            try:
                counted, why, remains = self._device(n)
            except (PgcError, OSError) as refused:
                counted, why, remains, error = 0, str(refused), 0, refused
            with self._lock:
                failed += error is not None
                ended[why] += 1
                accepted, left, done = accepted + counted, left + remains, done + 1
                self.say(done, accepted)

        pool = ThreadPoolExecutor(at_once)
        try:
            list(pool.map(one, range(len(self.tokens))))
        finally:
            self._stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
        return Joined(accepted, ended, failed, left)

    def _device(self, n: int) -> tuple[int, str, int]:
        with self.connect(self.tokens[n]) as service:
            player = self._player(n)
            device = Device(
                open_ledger(self.ledgers[n], self.limit, self.device_id),
                player=player,
                accepts=self.accepts,
                slot_seconds=self.slot,
                clock=service.clock,
            )
            accepted, why = run_device(service, device)
        return accepted, why, device.balance.left

    def _player(self, n: int) -> JaxPlayer | NumpyPlayer:
        """Returns the player of a device, in its own ψ."""
        if isinstance(self.world, HostWorld):
            psi = self.population.pick(
                np.random.default_rng([self.seed, n]).random(len(self.population.variations))
            )
        else:
            psi = definition.draw_psi(Address(trial_seed(self.seed, 0), n, 0), self.population)
        if self.simulated and not isinstance(self.world, HostWorld):
            return JaxPlayer(compiled(self.world), psi, self.recipe)
        return make_player(self.world, psi, self.recipe, fixed_steps=not self.simulated)


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
        seen, reward, terminated, truncated, _ = self.env.step(self.world.acting.plain(action))
        return (
            self.world.observation.flat(seen),
            float(reward),
            bool(terminated),
            bool(truncated),
            {},
        )


def open_ledger(path: Path, limit: float | None, device_id: str | None) -> Ledger:
    """Returns the ledger that a device has; a new one only for a simulated device, with `limit`."""
    if path.exists() or limit is None:
        try:
            return Ledger.open(path, device_id=device_id)
        except LedgerError as error:
            if path.exists():
                raise
            raise PgcError(
                f"{error}. pgc provision gives a device its ledger, once in its life"
            ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    return Ledger.create(path, limit)
