"""What a mechanism says of itself to others: how an offer asks for it, and which event betrays most
of a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

LIFTED, UNBIASED = 1, 2
FIRST_OUTSIDE, LAST_OUTSIDE = 128, 255
"""Wire numbers for mechanisms from outside this package. A device accepts one only when its
application names it."""

Codes = np.ndarray
"""(n, …): as many codes."""


class WireForm(NamedTuple):
    """A mechanism's parameters as an offer carries them, but for its dimension and ε."""

    number: int
    """Which mechanism: its `wire_number`."""
    clip: float = 1.0
    """C; 1 for directions that are not lifted."""
    size: int = 0
    """d̂ of `prs` and `prs-sign`, M of `index`; another mechanism's own; else 0."""
    nearest: int = 0
    """k of `index`; another mechanism's own; else 0."""
    flags: int = 0
    """1: lifted, the norm up to C is reported as well; 2: `prs` is decoded to be unbiased."""


@dataclass(frozen=True)
class Event:
    """Two gradients that are easiest to tell apart, and what tells them apart best."""

    number: int
    """Number of the offer that asks, which decides the public words."""
    one: np.ndarray
    other: np.ndarray
    happened: Callable[[Codes], np.ndarray]
    """Which of many codes are in the event."""
    likely: float
    """Its probability under `one`, as claimed."""
