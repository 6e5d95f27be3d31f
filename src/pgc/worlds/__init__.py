"""Private environments: a World is pure reset/step over (key, state, action, ψ); a Population is a distribution over ψ."""

from pgc.errors import PgcError
from pgc.worlds.acrobot import Acrobot
from pgc.worlds.base import Transition, World
from pgc.worlds.cartpole import CartPole
from pgc.worlds.mountain_car import MountainCar
from pgc.worlds.pendulum import Pendulum
from pgc.worlds.population import Population, Variation

WORLDS: dict[str, type[World]] = {world.name: world for world in (CartPole, Acrobot, MountainCar, Pendulum)}


def make_world(name: str) -> World:
    """The world of that name."""
    if name not in WORLDS:
        raise PgcError(f"unknown world '{name}'; choose one of: {', '.join(WORLDS)}")
    return WORLDS[name]()


__all__ = [
    "WORLDS",
    "Acrobot",
    "CartPole",
    "MountainCar",
    "Pendulum",
    "Population",
    "Transition",
    "Variation",
    "World",
    "make_world",
]
