"""Turns a policy's outputs into actions in NumPy, with the distributions of `spaces.py`.

The caller gives the uniform numbers. A device takes them from a generator that the operating system
seeds; a simulation on the host has an address for each.
"""

from __future__ import annotations

import numpy as np

from pgc.local_training.numpy_network import middle_and_half, softmax
from pgc.local_training.recipe import Recipe


def uniforms(recipe: Recipe) -> int:
    """Returns how many uniform numbers in [0, 1) one action is drawn from."""
    return 3 if isinstance(recipe.actions, int) else 1 + 3 * recipe.outputs


def greedy(recipe: Recipe, outputs: np.ndarray) -> np.ndarray:
    """Returns the likeliest action of each row, in the world's units."""
    return outputs.argmax(axis=1) if isinstance(recipe.actions, int) else _in_units(recipe, outputs)


def draw(
    recipe: Recipe,
    outputs: np.ndarray,
    u: np.ndarray,
    alpha: np.ndarray,
    greedily: np.ndarray,
) -> np.ndarray:
    """Draws an action for each row of outputs (rows, outputs), in the world's units.

    With probability α it is uniform; else it is sampled from π, or the likeliest where `greedily`.
    `u` (rows, uniforms) are uniform numbers in [0, 1).
    """
    if isinstance(recipe.actions, int):
        upto = softmax(outputs).cumsum(axis=1)
        sampled = np.minimum((u[:, :1] >= upto).sum(axis=1), recipe.actions - 1)
        by_policy = np.where(greedily, outputs.argmax(axis=1), sampled)
        return np.where(u[:, 1] < alpha, (u[:, 2] * recipe.actions).astype(int), by_policy)
    chosen = outputs.copy()
    for row, mean in enumerate(outputs):  # one by one: a row must not depend on the others
        normal = _normal(u[row, 1:].reshape(3, -1))
        anywhere = 2 * u[row, -recipe.outputs :] - 1
        by_policy = mean if greedily[row] else mean + recipe.std * normal
        chosen[row] = anywhere if u[row, 0] < alpha[row] else by_policy
    return _in_units(recipe, chosen)


def _in_units(recipe: Recipe, actions: np.ndarray) -> np.ndarray:
    assert not isinstance(recipe.actions, int)
    middle, half = middle_and_half(recipe.actions)
    made: np.ndarray = middle + half * actions
    return made


def _normal(u: np.ndarray) -> np.ndarray:
    """Returns standard normal numbers from uniform ones (Box and Muller 1958)."""
    made: np.ndarray = np.sqrt(-2 * np.log1p(-u[0])) * np.cos(2 * np.pi * u[1])
    return made
