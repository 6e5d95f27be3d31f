"""The worlds by their names: compiled ones, and the doors to Gymnasium and Gymnax."""

from __future__ import annotations

from typing import Protocol

from pgc.errors import PgcError
from pgc.local_training.worlds.acrobot import Acrobot
from pgc.local_training.worlds.base import CompiledWorld, Transition, World
from pgc.local_training.worlds.cartpole import CartPole
from pgc.local_training.worlds.mountain_car import MountainCar
from pgc.local_training.worlds.pendulum import Pendulum
from pgc.local_training.worlds.population import Population, Variation

WORLDS: dict[str, type[CompiledWorld]] = {
    world.name: world for world in (CartPole, Acrobot, MountainCar, Pendulum)
}


class Settings(Protocol):
    """What of a config decides a world."""

    @property
    def world(self) -> str:
        """The name of the world."""

    @property
    def max_steps(self) -> int | None:
        """The longest episode of a world of one's own."""

    @property
    def threshold(self) -> float | None:
        """Θ of a world of one's own."""

    @property
    def bounds(self) -> tuple[str, ...] | None:
        """The public box of its observations."""


def world_of(config: Settings) -> World:
    """The world that a config names."""
    return make_world(
        config.world, max_steps=config.max_steps, threshold=config.threshold, bounds=config.bounds
    )


def make_world(
    name: str,
    *,
    max_steps: int | None = None,
    threshold: float | None = None,
    bounds: tuple[str, ...] | None = None,
) -> World:
    """A built-in world by its name, `gymnasium:ID`, `gymnax:ID`, or MODULE:CLASS of a Gymnasium
    environment of one's own.

    For the latter: an episode's longest, Θ, and the public box of the observations, where they
    should not be the usual ones.
    """
    if name in WORLDS:
        if (max_steps, threshold, bounds) != (None, None, None):
            raise PgcError(
                f"max_steps, threshold and bounds are for worlds of your own; {name} has its own"
            )
        return WORLDS[name]()
    if ":" not in name:
        kinds = "gymnasium:ID, gymnax:ID, or MODULE:CLASS of a Gymnasium environment of your own"
        raise PgcError(f"unknown world '{name}'; choose one of: {', '.join(WORLDS)}; {kinds}")
    if name.startswith("gymnax:"):
        from pgc.local_training.worlds.gymnax_world import gymnax_world  # an extra

        return gymnax_world(name, max_steps, threshold, bounds)
    from pgc.local_training.worlds.host import host_world  # an extra

    return host_world(name, max_steps, threshold, bounds)


def compiled(world: World) -> CompiledWorld:
    """The world as one that plays inside a compiled program."""
    if not isinstance(world, CompiledWorld):
        raise PgcError(
            f"{world.name} plays on the host; this needs a compiled world: {', '.join(WORLDS)}, or "
            "gymnax:ID"
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
