"""`privunit`: PrivUnit2, the best known way to send a direction.

It sends a point of the sphere, from a cap around the direction or from the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from pgc.randomise.mechanisms.base import Array
from pgc.randomise.mechanisms.sphere import (
    Moments,
    coordinate,
    leaning,
    likelihood_ratio,
    quantile,
    share_of_cap,
)
from pgc.randomise.mechanisms.two_sides import Side, TwoSides, side_of, smallest


@dataclass(frozen=True, kw_only=True)
class PrivUnit(TwoSides):
    """Sends V, uniform on the cap ⟨V, u⟩ ≥ γ with probability p, else on its complement; V is
    decoded as V/m.

    This is PrivUnit2 of Bhowmick et al. (2018), with the γ that maximises m. It has the smallest
    error of all unbiased ε-LDP mechanisms for directions (Asi, Feldman and Talwar 2022).

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report: the density of
    V is p/q on the cap and (1−p)/(1−q) off it, and their ratio is e^ε, whatever u is. Assumption:
    real arithmetic. These draws are floating-point numbers, for simulation, and are never released.
    """

    name = "privunit"
    one_length = True

    @property
    def how(self) -> str:
        """Says what is sent, in words."""
        return (
            f"a point of the unit sphere in R^{self.dim}, {likelihood_ratio(self.epsilon)} times "
            "as likely near the gradient's direction as elsewhere"
        )

    @cached_property
    def side(self) -> Side:
        """The cap with the least error."""
        return best_cap(self.dim, self.epsilon)

    @cached_property
    def moments(self) -> Moments:
        """The moments of V: m in closed form, E[T²] as a sum over the cells of `coordinate`."""
        gamma, q, p = self.side
        law = coordinate(self.dim)
        # the share of each cell above γ, which divides one of them
        above = np.clip((law.t[:-1] - gamma) / (law.t[:-1] - law.t[1:]), 0, 1)
        square = law.middle**2
        along = np.sum(law.mass * square * (above * p / q + (1 - above) * (1 - p) / (1 - q)))
        return Moments(
            mean_along(self.dim, self.side), float(along), float((1 - along) / (self.dim - 1))
        )

    def place(self, probability: Array, u: Array, words: Array) -> Array:
        """Returns V on the unit sphere."""
        return leaning(quantile(probability, self.dim), u, words)


def mean_along(dim: int, cap: Side) -> float:
    """Returns the mean m = E⟨V, u⟩ = Γ(d/2)/(√π Γ((d−1)/2)) · (1−γ²)^((d−1)/2)/(d−1) · [p/q −
    (1−p)/(1−q)].
    """
    gamma, q, p = cap
    log = (
        math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) + (dim - 1) / 2 * math.log1p(-(gamma**2))
    )
    return math.exp(log) / (math.sqrt(math.pi) * (dim - 1)) * (p / q - (1 - p) / (1 - q))


@cache
def best_cap(dim: int, epsilon: float) -> Side:
    """Returns the cap whose m is largest: m has one maximum in γ ≥ 0."""

    def cap(gamma: float) -> Side:
        return side_of(gamma, float(share_of_cap(gamma, dim)), epsilon)

    return cap(
        smallest(
            lambda gamma: -mean_along(dim, cap(gamma)), min(1.0, 12 / math.sqrt(dim)) * (1 - 1e-9)
        )
    )
