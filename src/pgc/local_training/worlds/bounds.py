"""The public box of a world's observations, as text: INDEX=low:high for each of its numbers."""

from __future__ import annotations

import math

from pgc.errors import PgcError
from pgc.spaces import Bounds


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
