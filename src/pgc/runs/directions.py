"""Makes the few directions of a learnt subspace of policies that are good in different homes."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from pgc.update.cap import OutputCap

SHORTEST = 0.01
"""A direction that is shorter than this times the first one is left out."""


def principal(steps: np.ndarray, count: int) -> np.ndarray:
    """Returns the first principal directions of steps (n, k), at most `count` of them.

    A step leads from where private learning starts to a home's own policy. What all of them have in
    common is a direction too, and often the one that matters most: so they are not centred. Each
    direction is as long as the root mean square of the steps along it. Directions in which steps
    are very short are left out.
    """
    _, sizes, rows = np.linalg.svd(steps, full_matrices=False)
    long = int(np.sum(sizes > max(SHORTEST * sizes[0], 1e-9)))
    kept = min(count, long)
    made = rows[:kept] * (sizes[:kept, None] / math.sqrt(len(steps)))
    # a direction and its opposite are the same subspace: take one of them, on any machine
    signs = np.sign(made[np.arange(len(made)), np.abs(made).argmax(axis=1)])
    signed: np.ndarray = made * signs[:, None]
    return signed


def of_one_size(cap: OutputCap | None, theta: np.ndarray) -> np.ndarray:
    """Returns θ with its outputs scaled to half of what the cap allows, so that private learning
    can change them.

    Greedy actions stay the same. Without a cap, the size of the outputs matters, and is kept.
    """
    if cap is None:
        return theta
    exact = jnp.asarray(theta, jnp.float32)
    factor = cap.most / 2 / jnp.maximum(cap.size(exact), 1e-6)
    return np.asarray(cap.policy.scale_outputs(exact, factor), float)


def comparable(
    cap: OutputCap | None, theta: np.ndarray, basis: np.ndarray, xs: np.ndarray
) -> np.ndarray:
    """Returns the coordinates (n, k) of the policies θ + W x, with their outputs at one size.

    How large a search leaves the outputs is chance where actions are greedy. Without this, the
    longest direction would be along θ itself, which changes no action.
    """
    if cap is None:
        return xs
    moved = np.stack([of_one_size(cap, theta + basis @ x) - theta for x in xs])
    made: np.ndarray = np.linalg.lstsq(basis, moved.T, rcond=None)[0].T
    return made
