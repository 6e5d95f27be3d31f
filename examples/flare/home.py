"""What the owner of a FLARE site installs: the site's own world, and how it is played.

`card.json` beside this file is the card that the aggregator publishes (`pgc.service.model.Model.card`); the owner looks at
it once, and from then on no job can change what is played.
"""

import json
import os
from pathlib import Path

import gymnasium
from pgc.device.play import NumpyPlayer
from pgc.device.recipe import Recipe


def make():
    """Returns the player of one home: CartPole with a gravity that is private."""
    world = gymnasium.make("CartPole-v1").unwrapped
    world.gravity = 9.0 + (os.getpid() % 16) / 10
    card = json.loads(Path(__file__).with_name("card.json").read_text())
    return NumpyPlayer(world, Recipe.of_card(card))
