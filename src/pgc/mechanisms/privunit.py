"""`privunit`: PrivUnit2, the best known way to send a direction. A point of the sphere, from a cap around it or from the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from pgc.mechanisms.base import Array
from pgc.mechanisms.randomized_response import WORD
from pgc.mechanisms.sphere import (
    Moments,
    OnSphere,
    coordinate,
    leaning,
    normal_words,
    quantile,
    share_of_cap,
    uniform_direction,
    unit,
)


class Cap(NamedTuple):
    """A cap ⟨V, u⟩ ≥ γ of the sphere, and how often a report comes from it."""

    gamma: float
    q: float
    """Its share of the sphere."""
    p: float
    """P(V in the cap) = e^ε·q/(1 − q + e^ε·q)."""


@dataclass(frozen=True, kw_only=True)
class PrivUnit(OnSphere):
    """With probability p, V uniform on the cap ⟨V, u⟩ ≥ γ, else on its complement; decoded as V/m.

    PrivUnit2 of Bhowmick et al. (2018), with the γ that maximises m: the smallest error of all unbiased ε-LDP mechanisms for
    directions (Asi, Feldman and Talwar 2022).

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report: the density of V is p/q on the cap and
    (1−p)/(1−q) off it, and their ratio is e^ε, whatever u is. Assumption: real arithmetic. These draws are floating-point
    numbers, for simulation, and are never released.
    """

    name = "privunit"
    traced = {"inside": np.uint32, "q": np.float32, "size": np.float32}

    @property
    def how(self) -> str:
        """A point."""
        return f"a point of the unit sphere in R^{self.dim}, {math.exp(self.epsilon):.3g} times as likely near it as elsewhere"

    @cached_property
    def cap(self) -> Cap:
        """γ, q and p."""
        return best_cap(self.dim, self.epsilon)

    @cached_property
    def inside(self) -> int:
        """How many of 2³² words choose the cap: p, rounded down."""
        return min(WORD - 1, int(self.cap.p * WORD))

    @cached_property
    def q(self) -> float:
        """The cap's share of the sphere."""
        return self.cap.q

    @cached_property
    def moments(self) -> Moments:
        """In closed form for m; E[T²] by summing over the cells of `coordinate`."""
        gamma, q, p = self.cap
        law = coordinate(self.dim)
        above = np.clip((law.t[:-1] - gamma) / (law.t[:-1] - law.t[1:]), 0, 1)  # of a cell that γ divides
        square = law.middle**2
        along = np.sum(law.mass * square * (above * p / q + (1 - above) * (1 - p) / (1 - q)))
        return Moments(mean_along(self.dim, self.cap), float(along), float((1 - along) / (self.dim - 1)))

    @cached_property
    def size(self) -> float:
        """1/m."""
        return 1 / self.moments.mean

    @property
    def secret_words(self) -> int:
        """Cap or not, where in it, and the orthogonal part."""
        return 2 + normal_words(self.dim)

    @property
    def public_words(self) -> int:
        """Those of the direction that stands in for one that is missing."""
        return normal_words(self.dim)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """U."""
        return unit(gradient, uniform_direction(public, self.dim, gradient.dtype))

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """V."""
        xp = thresholds.__array_namespace__()
        uniform = (xp.astype(secret[1], thresholds.dtype) + 0.5) * 2.0**-32
        inside = secret[0] < xp.asarray(self.inside, dtype=xp.uint32)
        q = xp.asarray(self.q, dtype=thresholds.dtype)
        along = quantile(xp.where(inside, q * uniform, q + (1 - q) * uniform), self.dim)
        return leaning(along, thresholds, secret[2:])

    def decode(self, code: Array, public: Array) -> Array:
        """V/m."""
        return self.size * code


def mean_along(dim: int, cap: Cap) -> float:
    """The mean m = E⟨V, u⟩ = Γ(d/2)/(√π Γ((d−1)/2)) · (1−γ²)^((d−1)/2)/(d−1) · [p/q − (1−p)/(1−q)]."""
    gamma, q, p = cap
    log = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) + (dim - 1) / 2 * math.log1p(-(gamma**2))
    return math.exp(log) / (math.sqrt(math.pi) * (dim - 1)) * (p / q - (1 - p) / (1 - q))


def cap_at(gamma: float, dim: int, epsilon: float) -> Cap:
    """The cap of height γ, with ε used up."""
    q = float(share_of_cap(gamma, dim))
    return Cap(gamma, q, q / (q + (1 - q) * math.exp(-epsilon)))


@cache
def best_cap(dim: int, epsilon: float) -> Cap:
    """The cap whose m is largest, γ to six digits, by golden-section search: m has one maximum in γ ≥ 0."""
    low, high = 0.0, min(1.0, 12 / math.sqrt(dim)) * (1 - 1e-9)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if mean_along(dim, cap_at(a, dim, epsilon)) < mean_along(dim, cap_at(b, dim, epsilon)):
            low = a
        else:
            high = b
    return cap_at((low + high) / 2, dim, epsilon)
