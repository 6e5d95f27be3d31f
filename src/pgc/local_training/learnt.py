"""A policy that was learnt, ready to act: θ with the network and the scaling that belong to it.

It needs NumPy alone, so a device can act with it. Files of policies carry the recipe as text
(`policy_notes`), because θ means nothing without the shapes and scales that it was trained with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.local_training import numpy_actions
from pgc.local_training.numpy_network import Network, middle_and_half, softmax
from pgc.local_training.recipe import CARD, UNSTATED, Recipe

RECIPE = "recipe"
"""The name of the note that holds a recipe."""


@dataclass(frozen=True)
class LearntPolicy:
    """A policy π that acts on observations as the environment gives them."""

    theta: np.ndarray
    """θ (d,)."""
    recipe: Recipe
    """The network, the public box by which it scales observations, and the actions."""

    def act(self, observation: Any) -> Any:
        """Returns the greedy action at an observation, in the environment's own units.

        For discrete actions it is an int, for continuous ones an array within their range. Given
        several observations, one in each row, it returns one action for each.
        """
        rows, single = self._rows(observation)
        chosen = numpy_actions.greedy(self.recipe, self._outputs(rows))
        if not isinstance(self.recipe.actions, int):
            chosen = np.clip(chosen, *np.array(self.recipe.actions, float).T)
            return chosen[0] if single else chosen
        return int(chosen[0]) if single else chosen

    def __repr__(self) -> str:
        """Says which policy it is, and not all of its numbers."""
        recipe = self.recipe
        sees = f"{len(recipe.bounds)} numbers"
        does = f"{recipe.actions} actions" if isinstance(recipe.actions, int) else "a vector"
        return (
            f"<pgc policy: from {sees} to {does}, hidden layers {recipe.hidden}, d = {recipe.dim}>"
        )

    def probabilities(self, observation: Any) -> np.ndarray:
        """Returns π(a | s) of every discrete action at an observation, or at each of several."""
        if not isinstance(self.recipe.actions, int):
            raise PgcError("this policy has continuous actions; act() returns their mean")
        rows, single = self._rows(observation)
        made = softmax(self._outputs(rows))
        return made[0] if single else made

    def _rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        rows, numbers = np.asarray(observation, float), len(self.recipe.bounds)
        if rows.ndim not in (1, 2) or rows.shape[-1] != numbers:
            raise PgcError(
                f"an observation of this policy has {numbers} numbers, not the shape {rows.shape}"
            )
        return np.atleast_2d(rows), rows.ndim == 1

    def _outputs(self, rows: np.ndarray) -> np.ndarray:
        *shared, (weight, bias) = self.layers
        for into, shift in shared:
            rows = rows @ into + shift
            rows = np.maximum(rows, 0) if self.recipe.activation == "relu" else np.tanh(rows)
        made: np.ndarray = rows @ weight + bias
        return made

    @cached_property
    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights (inputs, outputs) and biases of all layers but the value's.

        The first one takes observations as the environment gives them: scaling is part of it.
        """
        layers = Network(self.recipe).layers(np.asarray(self.theta, float))[:-1]
        made = [(weight.T, bias) for weight, bias in layers]
        if self.recipe.normalize:
            middle, half = middle_and_half(self.recipe.bounds)
            weight, bias = made[0]
            made[0] = (weight / half[:, None], bias - (middle / half) @ weight)
        return made


def policy_notes(recipe: Recipe | None) -> dict[str, str] | None:
    """Returns the notes of a file of policies: their recipe, if pgc knows their network."""
    return None if recipe is None else {RECIPE: json.dumps(asdict(recipe))}


def noted_recipe(notes: Mapping[str, str]) -> Recipe | None:
    """Returns the recipe that `policy_notes` wrote; None if there is none."""
    if RECIPE not in notes:
        return None
    try:
        found = UNSTATED | json.loads(notes[RECIPE])
        if set(found) != {f.name for f in fields(Recipe)} or found["image"] is not None:
            raise ValueError("its fields are not those of a recipe")
        actions = found["actions"]
        return Recipe.read(
            {name: found[name] for name in CARD},
            bounds=_pairs(found["bounds"]),
            actions=actions if isinstance(actions, int) else _pairs(actions),
            max_steps=int(found["max_steps"]),
            score_threshold=float(found["score_threshold"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise PgcError(f"the recipe of this policy cannot be read ({error})") from None


def _pairs(ranges: Any) -> tuple[tuple[float, float], ...]:
    return tuple((float(low), float(high)) for low, high in ranges)
