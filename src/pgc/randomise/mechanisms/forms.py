"""What a mechanism tells other modules about itself: how an offer asks for it, and which event
reveals most about a gradient.
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
"""n codes, as an array (n, …)."""


class WireForm(NamedTuple):
    """A mechanism's parameters as an offer carries them, except its dimension and ε."""

    number: int
    """Which mechanism: its `wire_number`."""
    clip: float = 1.0
    """C; 1 for directions that are not lifted."""
    size: int = 0
    """d̂ of `prs` and `prs-sign`, M of `index`; 0 for others, unless they give it a meaning."""
    nearest: int = 0
    """k of `index`; 0 for others, unless they give it a meaning."""
    flags: int = 0
    """1: lifted, the norm up to C is reported as well; 2: `prs` is decoded to be unbiased."""


@dataclass(frozen=True)
class Event:
    """The two gradients that are easiest to tell apart, and the event that does it best."""

    number: int
    """The number of the offer, which determines the public words."""
    one: np.ndarray
    other: np.ndarray
    happened: Callable[[Codes], np.ndarray]
    """Returns which of many codes are in the event."""
    likely: float
    """The probability of the event under `one`, by the mechanism's claim."""
