"""A small convolutional network for pictures: three strided convolutions, one hidden layer, a
linear policy head and a value.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import numpy as np

from pgc.local_training.policies.own import Own, from_function

FILTERS = (8, 16, 16)
WINDOW = 3
HIDDEN = 32
FLAT = 0.3
"""The factor by which the heads of θ_0 are scaled."""


@cache
def convolutional(shape: tuple[int, int, int], outputs: int, seed: int = 0) -> Own:
    """Returns a network for pictures (height, width, channels).

    θ_0 is a He initialisation with smaller heads.
    """
    rng, channels = np.random.default_rng(seed), shape[2]
    weights: dict[str, Any] = {}
    size, into = list(shape[:2]), channels
    for i, out in enumerate(FILTERS):
        weights[f"convolution{i}"] = _normal(
            rng, (WINDOW, WINDOW, into, out), WINDOW * WINDOW * into
        )
        size, into = [-(-n // 2) for n in size], out
    flat = math.prod(size) * into
    weights["hidden"] = _normal(rng, (flat, HIDDEN), flat)
    weights["policy"] = FLAT * _normal(rng, (HIDDEN, outputs), HIDDEN)
    weights["value"] = FLAT * _normal(rng, (HIDDEN, 1), HIDDEN)
    return from_function(_apply, weights)


def _apply(weights: dict[str, jax.Array], picture: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns outputs and value at one picture of numbers in [0, 1]."""
    x = picture[None] - 0.5
    for i in range(len(FILTERS)):
        x = jax.lax.conv_general_dilated(
            x,
            weights[f"convolution{i}"],
            (2, 2),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        x = jax.nn.relu(x)
    x = jax.nn.relu(x.reshape(-1) @ weights["hidden"])
    return x @ weights["policy"], (x @ weights["value"])[0]


def _normal(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> np.ndarray:
    return (rng.standard_normal(shape) * math.sqrt(2 / inputs)).astype(np.float32)
