"""The common base of `privunit` and `privunitg`: with probability p the report comes from the side
of u, else from the other.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pgc.randomise.mechanisms.base import Array
from pgc.randomise.mechanisms.forms import Event
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.randomise.mechanisms.sphere import (
    LARGEST_EPSILON,
    OnSphere,
    normal_words,
    uniform_direction,
    unit,
)


class Side(NamedTuple):
    """The side ⟨V, u⟩ ≥ γ of a distribution that does not depend on u, and how often a report comes
    from it.
    """

    gamma: float
    q: float
    """The probability of the side under that distribution."""
    p: float
    """P(⟨V, u⟩ ≥ γ) = e^ε·q/(1 − q + e^ε·q), the largest that ε allows."""


@dataclass(frozen=True, kw_only=True)
class TwoSides(OnSphere):
    """Relative to a distribution that does not depend on u, the density of V is p/q on the side of
    u and (1−p)/(1−q) off it: a ratio of e^ε.
    """

    traced = {"inside": np.uint32, "q": np.float32, "size": np.float32}

    @property
    @abstractmethod
    def side(self) -> Side:
        """The γ, q and p with the smallest error."""

    @abstractmethod
    def place(self, probability: Array, u: Array, words: Array) -> Array:
        """Returns V, with ⟨V, u⟩ at this upper quantile of the distribution, and the part that is
        orthogonal to u from `normal_words(dim)` words.
        """

    @cached_property
    def inside(self) -> int:
        """How many of 2³² words choose the side of u: 2³²·p, rounded down."""
        return min(WORD - 1, int(self.side.p * WORD))

    @cached_property
    def q(self) -> float:
        """The probability of the side under the distribution that does not depend on u."""
        return self.side.q

    @cached_property
    def size(self) -> float:
        """1/m, by which V is multiplied when it is decoded."""
        return 1 / self.moments.mean

    @property
    def secret_words(self) -> int:
        """The number of words for the choice of side, the place on it, and the orthogonal part."""
        return 2 + normal_words(self.dim)

    @property
    def public_words(self) -> int:
        """The number of words for the direction that replaces that of a zero gradient."""
        return normal_words(self.dim)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns u, the direction of the gradient."""
        return unit(gradient, uniform_direction(public, self.dim, gradient.dtype))

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws V, on the side of u or off it."""
        xp = thresholds.__array_namespace__()
        uniform = (xp.astype(secret[1], thresholds.dtype) + 0.5) * 2.0**-32
        inside = secret[0] < xp.asarray(self.inside, dtype=xp.uint32)
        q = xp.asarray(self.q, dtype=thresholds.dtype)
        return self.place(
            xp.where(inside, q * uniform, q + (1 - q) * uniform), thresholds, secret[2:]
        )

    def decode(self, code: Array, public: Array) -> Array:
        """Returns V/m, an unbiased estimate of the direction."""
        return self.size * code

    def opposite(
        self, gradient: np.ndarray, words: Callable[[int], np.ndarray], prepare: Callable[..., Any]
    ) -> Event | None:
        """Returns the event that V is on the gradient's side."""
        u = gradient / np.linalg.norm(gradient)
        return Event(
            0,
            gradient,
            -gradient,
            lambda codes: np.asarray(codes @ u >= self.side.gamma),
            self.side.p,
        )


def side_of(gamma: float, q: float, epsilon: float) -> Side:
    """Returns the side beyond γ, whose probability is q."""
    return Side(gamma, q, q / (q + (1 - q) * math.exp(-min(epsilon, LARGEST_EPSILON))))


def smallest(error: Callable[[float], float], high: float) -> float:
    """Returns where in [0, high] a function has its one minimum, by golden-section search."""
    low, ratio = 0.0, (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if error(a) > error(b):
            low = a
        else:
            high = b
    return (low + high) / 2
