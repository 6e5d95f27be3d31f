"""Finds worlds by their names: the built-in ones, and those of Gymnasium and Gymnax."""

from __future__ import annotations

from typing import Protocol

from pgc.errors import PgcError, did_you_mean, load
from pgc.local_training.worlds.acrobot import Acrobot
from pgc.local_training.worlds.base import CompiledWorld, Transition, World
from pgc.local_training.worlds.bounds import parse_bounds
from pgc.local_training.worlds.cartpole import CartPole
from pgc.local_training.worlds.glucose import Glucose
from pgc.local_training.worlds.mountain_car import MountainCar
from pgc.local_training.worlds.own import own_world
from pgc.local_training.worlds.pendulum import Pendulum
from pgc.local_training.worlds.population import Population, Variation
from pgc.local_training.worlds.public_play import PUBLIC_STEPS
from pgc.local_training.worlds.rooms import Rooms, RoomsWithPosition
from pgc.local_training.worlds.thermostat import Thermostat

WORLDS: dict[str, type[CompiledWorld]] = {
    world.name: world
    for world in (
        CartPole,
        Acrobot,
        MountainCar,
        Pendulum,
        Thermostat,
        Rooms,
        RoomsWithPosition,
        Glucose,
    )
}
BUILT_IN = dict(WORLDS)
"""The worlds of pgc itself. `WORLDS` may be added to."""


class Settings(Protocol):
    """The settings of a config that determine the world."""

    @property
    def world(self) -> str:
        """The name of the world."""

    @property
    def max_steps(self) -> int | None:
        """The largest number of steps in an episode, for a world that is not built in."""

    @property
    def threshold(self) -> float | None:
        """Θ, for a world that is not built in."""

    @property
    def bounds(self) -> tuple[str, ...] | None:
        """The public box of the observations, as text (`bounds.py`)."""


def world_of(config: Settings) -> World:
    """Returns the world that a config names."""
    return make_world(
        config.world,
        max_steps=config.max_steps,
        threshold=config.threshold,
        bounds=config.bounds,
        public_steps=getattr(config, "public_steps", PUBLIC_STEPS),
    )


def make_world(
    name: str,
    *,
    max_steps: int | None = None,
    threshold: float | None = None,
    bounds: tuple[str, ...] | None = None,
    public_steps: int = PUBLIC_STEPS,
) -> World:
    """Returns a built-in world by its name, `gymnasium:ID`, `gymnax:ID`, or MODULE:CLASS of a
    user's own: a `CompiledWorld`, or a Gymnasium environment.

    `bounds` replace the public box of the observations. For a world that is not built in,
    `max_steps` and `threshold` (Θ) replace the defaults, and a box that is not given is found by
    `public_steps` of play.
    """
    if name in WORLDS and name not in BUILT_IN:
        return _own(WORLDS[name], name, max_steps, threshold, bounds)
    if name in WORLDS:
        if (max_steps, threshold) != (None, None):
            raise PgcError(
                f"max_steps and threshold are for worlds of your own; {name} has its own"
            )
        return _in_box(WORLDS[name](), bounds)
    if ":" not in name:
        near = did_you_mean(name, [*WORLDS, *_registered(name)])
        kinds = "gymnasium:ID, gymnax:ID, or MODULE:CLASS of a world of your own"
        raise PgcError(f"unknown world '{name}'{near}; choose one of: {', '.join(WORLDS)}; {kinds}")
    if name.startswith("gymnax:"):
        from pgc.local_training.worlds.gymnax_world import gymnax_world  # an extra

        return gymnax_world(name, max_steps, threshold, bounds, public_steps)
    if not name.startswith("gymnasium:"):
        found = load(name, "world")
        if isinstance(found, type) and issubclass(found, CompiledWorld):
            return _own(found, name, max_steps, threshold, bounds)
    from pgc.local_training.worlds.host import host_world  # an extra

    return host_world(name, max_steps, threshold, bounds, public_steps)


def _own(
    kind: type[CompiledWorld],
    name: str,
    max_steps: int | None,
    threshold: float | None,
    bounds: tuple[str, ...] | None,
) -> CompiledWorld:
    """Returns a user's own compiled world."""
    world = own_world(kind, name)
    world.max_steps = world.max_steps if max_steps is None else max_steps
    world.score_threshold = world.score_threshold if threshold is None else threshold
    return _in_box(world, bounds)


def _registered(name: str) -> list[str]:
    """Returns gymnasium:NAME, if Gymnasium has an environment of that name."""
    try:
        from gymnasium import registry
    except ImportError:
        return []
    return [f"gymnasium:{known}" for known in registry if known.lower() == name.lower()]


def _in_box(world: CompiledWorld, bounds: tuple[str, ...] | None) -> CompiledWorld:
    """Returns the world with the box that is given, in those numbers for which one is given."""
    known = parse_bounds(bounds, world.observation_dim, world.name)
    world.observation_bounds = tuple(
        known.get(i, (float(low), float(high)))
        for i, (low, high) in enumerate(world.observation_bounds)
    )
    return world


def compiled(world: World) -> CompiledWorld:
    """Returns the world if it plays inside a compiled program; raises an error otherwise."""
    if not isinstance(world, CompiledWorld):
        raise PgcError(
            f"{world.name} plays on the host; this needs a compiled world: {', '.join(WORLDS)}, "
            "gymnax:ID, or a CompiledWorld of your own"
        )
    return world


__all__ = [
    "WORLDS",
    "Acrobot",
    "CartPole",
    "CompiledWorld",
    "MountainCar",
    "Pendulum",
    "Population",
    "Transition",
    "Variation",
    "World",
    "compiled",
    "make_world",
    "world_of",
]
