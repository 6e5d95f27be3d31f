"""docs/play-vectors.json is what the player of a device computes: a player in another language is compared with it."""

import json

import numpy as np
import pytest

from pgc.local_training.recipe import Recipe
from tests.local_training.play_vectors import CASES, VECTORS, vectors


def close(made, kept):
    """Equal, but for the last digits of numbers."""
    if isinstance(kept, dict):
        return made.keys() == kept.keys() and all(close(made[k], kept[k]) for k in kept)
    if isinstance(kept, list) and kept and not isinstance(kept[0], str):
        return np.shape(made) == np.shape(kept) and all(map(close, made, kept))
    if isinstance(kept, float):
        return made == pytest.approx(kept, rel=1e-9, abs=1e-12)
    return made == kept


def test_the_vectors_are_those_of_this_version():
    kept = json.loads(VECTORS.read_text(encoding="utf-8"))
    made = json.loads(json.dumps(vectors()))
    assert [case["case"] for case in kept["cases"]] == list(CASES) and kept["about"] == made[
        "about"
    ]
    for one, other in zip(made["cases"], kept["cases"], strict=True):
        assert close(one, other), one["case"]
    changed = json.loads(json.dumps(kept["cases"][0]))
    changed["z"][0] *= 1.0001
    assert not close(changed, kept["cases"][0])


def test_a_card_of_the_vectors_is_read():
    for case in json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]:
        recipe = Recipe.of_card({"recipe": case["recipe"], "play": case["play"]})
        assert (
            recipe.dim == len(case["theta"])
            and json.loads(json.dumps(recipe.card)) == case["recipe"]
        )
