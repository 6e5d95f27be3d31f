"""The public box of a world's observations: given as text (INDEX=low:high for each of its numbers),
or made of what public play saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pgc.errors import PgcError
from pgc.local_training.worlds.gymnasium_spaces import Observation
from pgc.local_training.worlds.public_play import Scales
from pgc.spaces import Bounds

FAR = 2.0
"""A mean that is more than this many standard deviations from 0 is the middle of a box."""
HUGE = 1e6
"""A limit of an observation space that is at least this large is ignored."""


def parse_bounds(
    given: tuple[str, ...] | None, dim: int, name: str
) -> dict[int, tuple[float, float]]:
    """Returns (low, high) of each number of an observation for which bounds are given."""
    return dict(_bound(text, dim, name) for text in given or ())


def bounds_text(bounds: Bounds) -> tuple[str, ...]:
    """Returns a box in the form that `parse_bounds` reads."""
    return tuple(f"{i}={low!r}:{high!r}" for i, (low, high) in enumerate(bounds))


def _bound(text: str, dim: int, name: str) -> tuple[int, tuple[float, float]]:
    index, equals, ends = text.partition("=")
    try:
        at, (low, high) = int(index), (float(end) for end in ends.split(":"))
        if (
            not equals
            or not 0 <= at < dim
            or not (math.isfinite(low) and math.isfinite(high) and low < high)
        ):
            raise ValueError
    except ValueError:
        raise PgcError(
            f"'{text}' is not a bound; write INDEX=low:high, low < high, INDEX from 0 to {dim - 1} "
            f"(an observation of {name} has {dim} numbers)"
        ) from None
    return at, (low, high)


def given_bounds(
    observation: Observation,
    name: str,
    given: tuple[str, ...] | None,
    probe: Callable[[], Scales],
) -> tuple[Bounds, bool]:
    """Returns the public box in which observations usually lie, and whether 0 is no usual value of
    some number.

    Bounds that are given (`INDEX=low:high`) are taken. The others come from play in the default
    environment, before there is any agent (`public_play.py`): they are public, cost no ε, and do
    not depend on any agent's ψ.
    """
    known, offset = parse_bounds(given, observation.dim, name), False
    box = np.stack([observation.low, observation.high])
    if len(known) < observation.dim and observation.categories is None:
        scales = probe()
        box = box_around(scales, observation)
        away = np.abs(scales.mean) > scales.deviation
        offset = any(away[i] for i in range(observation.dim) if i not in known)
    bounds = (known.get(i, (float(low), float(high))) for i, (low, high) in enumerate(box.T))
    return tuple(bounds), offset


def box_around(scales: Scales, observation: Observation) -> np.ndarray:
    """Returns the box (2, n) of observations that vary as `scales` says.

    Its middle is 0, and it reaches one standard deviation beyond the mean. What is wanted of a
    number is often that it becomes 0, and play that is not yet good may never have come there (a
    lander that falls does not see the ground for long). If 0 is far from all values, the mean is in
    the middle. The largest values would be a poor scale: a lander that crashes turns
    twenty times as fast as one that flies.
    """
    middle, half = scales
    far = np.abs(middle) > FAR * half
    low = np.where(far, middle - half, -np.abs(middle) - half)
    high = np.where(far, middle + half, np.abs(middle) + half)
    # For a number that never changed, or by less than a float32 can tell, take the space's own
    # limits, or an interval around it.
    flat = high - low < 1e-5 * np.maximum(np.abs(middle), 1e-4)
    wide = (observation.high > observation.low) & (
        np.maximum(np.abs(observation.low), np.abs(observation.high)) < HUGE
    )
    about = np.maximum(1.0, 1e-3 * np.abs(middle))
    low = np.where(flat, np.where(wide, observation.low, middle - about), low)
    high = np.where(flat, np.where(wide, observation.high, middle + about), high)
    return np.stack([low, high])
