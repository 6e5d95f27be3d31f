"""Converts Gymnasium's spaces for policies: actions become a distribution, observations a vector of
numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pgc.errors import PgcError, require
from pgc.spaces import Actions, Categorical, Gaussian

MOST_CATEGORIES = 4096
"""The most values of a discrete observation, which is passed on as a one-hot vector."""


class Observation(NamedTuple):
    """How an observation becomes numbers."""

    dim: int
    image: tuple[int, int, int] | None
    categories: int | None
    first: int
    """The smallest of the categories."""
    low: np.ndarray
    high: np.ndarray
    """The space's own limits, infinite where it has none; empty for pictures."""
    parts: Any = None
    """The space, if an observation has several parts, which are flattened into one vector."""

    def flat(self, seen: Any) -> np.ndarray:
        """Returns the numbers (dim,) of an observation; those of a picture are bytes."""
        if self.categories is not None:
            one: np.ndarray = np.eye(1, self.categories, int(seen) - self.first, np.float32)[0]
            return one
        if self.parts is not None:
            seen = require("gymnasium.spaces", "gymnasium").flatten(self.parts, seen)
        row = np.asarray(seen, np.uint8 if self.image else np.float32).reshape(-1)
        if row.size != self.dim:
            raise ValueError(f"an observation has {row.size} numbers, and its space {self.dim}")
        return row


class Acting(NamedTuple):
    """How a policy's action becomes one that the environment takes."""

    actions: Actions
    first: int
    """The smallest of the discrete actions."""
    shape: tuple[int, ...]
    dtype: Any

    def plain(self, action: Any) -> Any:
        """Returns the action as an int, or as an array within the bounds."""
        if isinstance(self.actions, Categorical):
            return int(action) + self.first
        return (
            np.clip(action, self.actions.low, self.actions.high)
            .astype(self.dtype)
            .reshape(self.shape)
        )


def observation_of(space: Any, name: str) -> Observation:
    """Returns how the observations of a space become numbers.

    They may be vectors, pictures (height, width, channels; bytes), categories, or have several
    parts of such kinds (Dict, Tuple, MultiDiscrete, MultiBinary), which become one vector, as
    Gymnasium's wrapper FlattenObservation makes it.
    """
    spaces = require("gymnasium.spaces", "gymnasium")
    none = np.empty(0)
    if isinstance(space, spaces.Discrete):
        n = int(space.n)
        if n > MOST_CATEGORIES:
            raise PgcError(
                f"{name} has {n} different observations; pgc takes at most {MOST_CATEGORIES} of "
                "them"
            )
        return Observation(n, None, n, int(space.start), np.zeros(n), np.ones(n))
    if isinstance(space, spaces.Dict | spaces.Tuple | spaces.MultiDiscrete | spaces.MultiBinary):
        try:
            flat = spaces.flatten_space(space)
        except NotImplementedError:
            flat = None
        if not isinstance(flat, spaces.Box):
            raise PgcError(
                f"{name} has observations with parts that are no vectors of one length; wrap it, "
                "so that they are"
            )
        return observation_of(spaces.Box(flat.low, flat.high, dtype=float), name)._replace(
            parts=space
        )
    if not isinstance(space, spaces.Box):
        raise PgcError(
            f"{name} has observations of kind {_kind(space)}; pgc needs Box, Discrete, Dict or "
            "Tuple (wrap it)"
        )
    if len(space.shape) in (2, 3) and space.dtype == np.uint8:
        height, width, channels = (*space.shape, 1)[:3]
        return Observation(math.prod(space.shape), (height, width, channels), None, 0, none, none)
    dim = math.prod(space.shape)
    low, high = (np.asarray(end, float).reshape(-1) for end in (space.low, space.high))
    return Observation(dim, None, None, 0, low, high)


def acting_of(space: Any, name: str) -> Acting:
    """Returns how a space takes actions, which are discrete or have finite bounds."""
    spaces = require("gymnasium.spaces", "gymnasium")
    if isinstance(space, spaces.Discrete):
        return Acting(Categorical(int(space.n)), int(space.start), (), int)
    if not isinstance(space, spaces.Box):
        raise PgcError(
            f"{name} has actions of kind {_kind(space)}; pgc needs Discrete or Box (wrap it)"
        )
    low, high = (
        tuple(np.asarray(end, float).reshape(-1).tolist()) for end in (space.low, space.high)
    )
    if not all(math.isfinite(x) for x in (*low, *high)):
        raise PgcError(
            f"{name} has actions without bounds; give its action_space finite ones, low and high"
        )
    return Acting(Gaussian(low, high), 0, space.shape, space.dtype)


def _kind(space: Any) -> str:
    return type(space).__name__
