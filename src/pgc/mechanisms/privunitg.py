"""`privunitg`: PrivUnit with Gaussians. Nearly as good as `privunit`, simpler to draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pgc.mechanisms.base import Array
from pgc.mechanisms.randomized_response import WORD
from pgc.mechanisms.sphere import Moments, OnSphere, normal_words, standard_normal, uniform_direction, unit

NORMAL = NormalDist()
END = 9.0
CELLS = 4096


class HalfSpace(NamedTuple):
    """A half-space ⟨V, u⟩ ≥ γ, and how often a report comes from it."""

    gamma: float
    q: float
    """P(N ≥ γ)."""
    p: float
    """P(⟨V, u⟩ ≥ γ) = e^ε·q/(1 − q + e^ε·q)."""


@dataclass(frozen=True, kw_only=True)
class PrivUnitG(OnSphere):
    """V = α·u + N(0, I) orthogonal to u, α a standard normal number conditioned to be ≥ γ with probability p, else < γ.

    Asi, Feldman and Talwar (2022), with the γ of the smallest error. Decoded as V/m, m = φ(γ)·[p/q − (1−p)/(1−q)].

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report: beside N(0, I) the density of V is p/q where
    ⟨V, u⟩ ≥ γ and (1−p)/(1−q) elsewhere, and their ratio is e^ε, whatever u is. Assumption: real arithmetic. These draws are
    floating-point numbers, for simulation, and are never released.
    """

    name = "privunitg"
    traced = {"inside": np.uint32, "q": np.float32, "size": np.float32}

    @property
    def how(self) -> str:
        """A Gaussian vector."""
        return (
            f"a Gaussian vector in R^{self.dim}, {math.exp(self.epsilon):.3g} times as likely on the gradient's side as elsewhere"
        )

    @cached_property
    def half_space(self) -> HalfSpace:
        """γ, q and p."""
        return best_half_space(self.dim, self.epsilon)

    @cached_property
    def inside(self) -> int:
        """How many of 2³² words choose the half-space: p, rounded down."""
        return min(WORD - 1, int(self.half_space.p * WORD))

    @cached_property
    def q(self) -> float:
        """The half-space's share."""
        return self.half_space.q

    @cached_property
    def moments(self) -> Moments:
        """In closed form."""
        return _moments(self.half_space)

    @cached_property
    def size(self) -> float:
        """1/m."""
        return 1 / self.moments.mean

    @property
    def secret_words(self) -> int:
        """Which side, where on it, and the orthogonal part."""
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
        q = xp.asarray(self.q, dtype=thresholds.dtype)
        inside = secret[0] < xp.asarray(self.inside, dtype=xp.uint32)
        probability = xp.where(inside, q * uniform, q + (1 - q) * uniform)
        along = xp.interp(probability, *(xp.asarray(column, dtype=thresholds.dtype) for column in _survival()))
        normal = standard_normal(secret[2:], thresholds.dtype)[: self.dim]
        return normal + (along - xp.sum(normal * thresholds)) * thresholds

    def decode(self, code: Array, public: Array) -> Array:
        """V/m."""
        return self.size * code


@cache
def _survival() -> tuple[np.ndarray, np.ndarray]:
    """P(N ≥ t), rising, and t, falling from 9 to −9."""
    t = np.linspace(END, -END, CELLS + 1)
    return np.asarray([0.5 * math.erfc(x / math.sqrt(2)) for x in t]), t


def _moments(half_space: HalfSpace) -> Moments:
    """From E[N | N ≥ γ] = φ(γ)/q and E[N² | N ≥ γ] = 1 + γ·φ(γ)/q."""
    gamma, q, p = half_space
    lean = NORMAL.pdf(gamma) * (p / q - (1 - p) / (1 - q))
    return Moments(lean, 1 + gamma * lean, 1.0)


@cache
def best_half_space(dim: int, epsilon: float) -> HalfSpace:
    """The half-space of the smallest error, by golden-section search over γ ≥ 0."""

    def at(gamma: float) -> HalfSpace:
        q = 0.5 * math.erfc(gamma / math.sqrt(2))
        return HalfSpace(gamma, q, q / (q + (1 - q) * math.exp(-epsilon)))

    def error(gamma: float) -> float:
        mean, along, across = _moments(at(gamma))
        return (along + (dim - 1) * across) / mean**2

    low, high, ratio = 0.0, 8.0, (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if error(a) > error(b):
            low = a
        else:
            high = b
    return at((low + high) / 2)
