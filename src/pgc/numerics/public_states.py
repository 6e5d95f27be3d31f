"""States that everyone knows: points of the public box in which observations usually lie.

They cost no ε.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from pgc.spaces import Bounds

PUBLIC_STATES = 64


@cache
def public_points(n: int) -> np.ndarray:
    """Returns m = PUBLIC_STATES points of [−1, 1]ⁿ, (n, m), the same on every machine.

    They are spread evenly by the additive recurrence of the generalised golden ratio (Roberts
    2018), and each point comes with its mirror image −x.
    """
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (n + 1))
    steps = np.arange(1, PUBLIC_STATES // 2 + 1)
    half = 2 * ((0.5 + np.outer(ratio ** -np.arange(1.0, n + 1), steps)) % 1) - 1
    return np.concatenate([half, -half], axis=1).astype(np.float32)


def public_states(bounds: Bounds) -> np.ndarray:
    """Returns the points of `public_points`, scaled to the box, (n, m)."""
    low, high = np.asarray(bounds, np.float32).T[:, :, None]
    return np.asarray((low + high) / 2 + (high - low) / 2 * public_points(len(bounds)), np.float32)


GRID = 4
"""A picture is described by the brightness of GRID × GRID places, across and down."""


def public_pictures(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns m pictures (n, m) of GRID × GRID grey patches, and the brightness of their patches.

    The brightness (places, m) is in [−1, 1].
    """
    height, width, channels = shape
    down, across = min(GRID, height), min(GRID, width)
    places = public_points(down * across)
    rows, columns = np.arange(height) * down // height, np.arange(width) * across // width
    grey = places.reshape(down, across, -1)[rows][:, columns]
    return np.repeat(127.5 * (grey + 1)[:, :, None], channels, axis=2).reshape(
        height * width * channels, -1
    ), places
