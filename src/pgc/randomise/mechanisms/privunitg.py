"""`privunitg`: PrivUnit with Gaussians. It is nearly as good as `privunit`, and simpler to draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist

import numpy as np

from pgc.randomise.mechanisms.base import Array
from pgc.randomise.mechanisms.sphere import Moments, likelihood_ratio, standard_normal
from pgc.randomise.mechanisms.two_sides import Side, TwoSides, side_of, smallest

NORMAL = NormalDist()
END = 9.0
CELLS = 4096


@dataclass(frozen=True, kw_only=True)
class PrivUnitG(TwoSides):
    """Sends V = α·u + N(0, I) orthogonal to u, with α a standard normal number that is conditioned
    to be ≥ γ with probability p, else < γ.

    This is the mechanism of Asi, Feldman and Talwar (2022), with the γ of the smallest error. V is
    decoded as V/m, m = φ(γ)·[p/q − (1−p)/(1−q)].

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report: relative to
    N(0, I), the density of V is p/q where ⟨V, u⟩ ≥ γ and (1−p)/(1−q) elsewhere, and their ratio is
    e^ε, whatever u is. Assumption: real arithmetic. These draws are floating-point numbers, for
    simulation, and are never released.
    """

    name = "privunitg"

    @property
    def how(self) -> str:
        """Says what is sent, in words."""
        who = (
            f"a Gaussian vector in R^{self.dim}, {likelihood_ratio(self.epsilon)} times as likely "
            "on the gradient's side"
        )
        return f"{who} as elsewhere"

    @cached_property
    def side(self) -> Side:
        """The half-space with the least error."""
        return best_half_space(self.dim, self.epsilon)

    @cached_property
    def moments(self) -> Moments:
        """The moments of V, in closed form."""
        return _moments(self.side)

    def place(self, probability: Array, u: Array, words: Array) -> Array:
        """Returns V in R^d, with ⟨V, u⟩ at this upper quantile."""
        xp = u.__array_namespace__()
        along = xp.interp(
            probability, *(xp.asarray(column, dtype=u.dtype) for column in _survival())
        )
        normal = standard_normal(words, u.dtype)[: self.dim]
        return normal + (along - xp.sum(normal * u)) * u


@cache
def _survival() -> tuple[np.ndarray, np.ndarray]:
    """Returns P(N ≥ t), rising, and t, falling from 9 to −9."""
    t = np.linspace(END, -END, CELLS + 1)
    return np.asarray([0.5 * math.erfc(x / math.sqrt(2)) for x in t]), t


def _moments(half_space: Side) -> Moments:
    """Returns the moments of V, from E[N | N ≥ γ] = φ(γ)/q and E[N² | N ≥ γ] = 1 + γ·φ(γ)/q."""
    gamma, q, p = half_space
    lean = NORMAL.pdf(gamma) * (p / q - (1 - p) / (1 - q))
    return Moments(lean, 1 + gamma * lean, 1.0)


@cache
def best_half_space(dim: int, epsilon: float) -> Side:
    """Returns the half-space with the smallest error."""

    def half_space(gamma: float) -> Side:
        return side_of(gamma, 0.5 * math.erfc(gamma / math.sqrt(2)), epsilon)

    def error(gamma: float) -> float:
        mean, along, across = _moments(half_space(gamma))
        return (along + (dim - 1) * across) / mean**2

    return half_space(smallest(error, 8.0))
