"""The home of a node: CartPole with a gravity of its own, and the recipe of its play."""

import json
from pathlib import Path

import gymnasium
from pgc.device.play import NumpyPlayer
from pgc.device.recipe import Recipe

GRAVITIES = (9.7, 9.8, 9.9)


def player(partition: int) -> NumpyPlayer:
    """Returns the player of a home; `partition` chooses its gravity."""
    gymnasium.logger.min_level = (
        gymnasium.logger.ERROR
    )  # a player steps on after the end, so that time says nothing
    world = gymnasium.make("CartPole-v1").unwrapped
    world.gravity = GRAVITIES[partition % len(GRAVITIES)]
    card = json.loads(Path(__file__).with_name("recipe.json").read_text())
    return NumpyPlayer(world, Recipe.of_card(card))
