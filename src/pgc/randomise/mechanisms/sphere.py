"""The common base of mechanisms that report a direction, a point of the unit sphere.

They report g/‖g‖ and drop the norm (`lift.py` reports the norm as well). Each sends a random V that
leans towards u = g/‖g‖, of the form V = T·u + (something symmetric and orthogonal to u). It is
decoded as V/m with m = E[T], which is unbiased.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pgc.errors import PgcError, require
from pgc.randomise.mechanisms.base import Array, Guarantee, Mechanism, require_finite_epsilon
from pgc.randomise.mechanisms.clip import HUGE, clip_elements
from pgc.randomise.mechanisms.forms import Event, WireForm

TINY = 1e-30
CELLS = 4096
LARGEST_EPSILON = 60.0
"""Beyond this nothing changes any more, and exponentials would overflow."""


class Moments(NamedTuple):
    """The moments of V on which the error of a mechanism on the sphere depends."""

    mean: float
    """m = E[T]."""
    along: float
    """E[T²]: the second moment along u."""
    across: float
    """The second moment along any one direction orthogonal to u."""


@dataclass(frozen=True, kw_only=True)
class OnSphere(Mechanism):
    """A mechanism that reports a direction. `clip` is not used.

    A gradient that is zero or not finite gets a report like any other: to send none, or to send
    zero, would reveal that it has no direction.
    """

    smallest_dim = 2
    clips = False
    clip: float = 1.0

    def __post_init__(self) -> None:
        """Requires a finite ε: ε = ∞ is the mechanism `none`."""
        super().__post_init__()
        require_finite_epsilon(self)

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """The moments of V, from which error and scale follow."""

    @property
    @abstractmethod
    def how(self) -> str:
        """Says what is sent, in words."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee is ε-LDP for the whole gradient."""
        statement = f"One report is {self.epsilon:g}-LDP for the whole gradient: {self.how}."
        return Guarantee(epsilon=self.epsilon, nominal_epsilon=self.epsilon, statement=statement)

    def error(self, norm: float = 1.0) -> float:
        """Returns E‖g̃ − u‖² = E‖V‖²/m² − 1 for the direction u, times the square of the norm, as
        if the norm were known.
        """
        mean, along, across = self.moments
        return norm**2 * ((along + (self.dim - 1) * across) / mean**2 - 1)

    def to_wire(self) -> WireForm:
        """Returns its number alone: a direction has no clip."""
        return super().to_wire()._replace(clip=1.0)

    @classmethod
    def from_wire(cls, form: WireForm, *, dim: int, epsilon: float) -> Mechanism:
        """Returns the mechanism, for a direction of `dim` numbers."""
        refuse_clip(form)
        return super().from_wire(form, dim=dim, epsilon=epsilon)

    def opposite(
        self, gradient: np.ndarray, words: Callable[[int], np.ndarray], prepare: Callable[..., Any]
    ) -> Event | None:
        """Returns the event that tells a gradient from its opposite best, where `prepare` is what
        happens to it before a draw.
        """
        return None

    def event(self, words: Callable[[int], np.ndarray]) -> Event | None:
        """Returns opposite directions, and the event that tells them apart."""
        return self.opposite(far_away(self), words, self.prepare)


def refuse_clip(form: WireForm) -> None:
    """Raises an error if an offer has a clip: a direction has none."""
    if form.clip != 1.0:
        raise PgcError("a direction that is not lifted has no clip")


def far_away(mechanism: Mechanism) -> np.ndarray:
    """Returns a gradient in a random direction, fixed once, far beyond the clip."""
    return mechanism.clip * np.random.default_rng(0).standard_normal(mechanism.dim) * 10


def likelihood_ratio(epsilon: float) -> str:
    """Returns e^ε as text."""
    return f"{math.exp(epsilon):.3g}" if epsilon <= LARGEST_EPSILON else f"e^{epsilon:g}"


def scaled(vector: Array) -> Array:
    """Returns the vector scaled so that its largest coordinate is ±1.

    It is zero if the vector has no direction (zero, NaN, Inf).
    """
    xp = vector.__array_namespace__()
    vector = clip_elements(vector, HUGE)
    largest = xp.max(xp.abs(vector))
    tiny = xp.asarray(TINY, dtype=vector.dtype)
    return xp.where(largest > tiny, vector / xp.maximum(largest, tiny), xp.zeros_like(vector))


def unit(vector: Array, instead: Array) -> Array:
    """Returns g/‖g‖, or the direction of `instead` if g has none."""
    xp = vector.__array_namespace__()
    vector = scaled(vector)
    vector = xp.where(xp.any(vector != 0), vector, instead)
    return vector / xp.sqrt(xp.sum(vector**2))


def standard_normal(words: Array, dtype: object) -> Array:
    """Returns as many standard normal numbers as there are uniform 32-bit words, an even number, by
    the method of Box and Muller (1958).
    """
    xp = words.__array_namespace__()
    half = words.shape[0] // 2
    uniform = (xp.astype(words[:half], dtype) + 0.5) * 2.0**-32
    radius, angle = (
        xp.sqrt(-2 * xp.log(uniform)),
        xp.astype(words[half:], dtype) * (2 * math.pi * 2.0**-32),
    )
    return xp.concat([radius * xp.cos(angle), radius * xp.sin(angle)])


def normal_words(n: int) -> int:
    """Returns how many words `standard_normal` needs for n numbers."""
    return n + n % 2


def uniform_direction(words: Array, dim: int, dtype: object) -> Array:
    """Returns a uniform point of the unit sphere of R^dim, from `normal_words(dim)` words."""
    xp = words.__array_namespace__()
    normal = standard_normal(words, dtype)[:dim]
    return normal / xp.maximum(xp.sqrt(xp.sum(normal**2)), xp.asarray(TINY, dtype=dtype))


def leaning(along: Array, u: Array, words: Array) -> Array:
    """Returns V on the unit sphere with ⟨V, u⟩ = `along`, uniform otherwise."""
    xp = u.__array_namespace__()
    normal = standard_normal(words, u.dtype)[: u.shape[0]]
    across = normal - xp.sum(normal * u) * u
    length = xp.maximum(xp.sqrt(xp.sum(across**2)), xp.asarray(TINY, dtype=u.dtype))
    return along * u + xp.sqrt(xp.maximum(1 - along**2, 0.0)) / length * across


def mean_abs_coordinate(dim: int) -> float:
    """Returns E|U₁| for U uniform on the unit sphere of R^d: Γ(d/2)/(√π·Γ((d+1)/2))."""
    return math.exp(math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)) / math.sqrt(math.pi)


class Coordinate(NamedTuple):
    """The distribution of one coordinate U₁ of a uniform direction, on a grid: density ∝ (1 −
    t²)^((d−3)/2).
    """

    t: np.ndarray  # from high to low
    survival: np.ndarray  # P(U₁ ≥ t), rising from 0 to 1
    mass: np.ndarray  # P of each cell between two points
    middle: np.ndarray  # the middle of each cell


@cache
def coordinate(dim: int) -> Coordinate:
    """Returns that distribution for the sphere of R^d, d ≥ 2.

    The cells have equal angles, and cover all that matters (13 standard deviations).
    """
    first = math.acos(min(1.0, 13 / math.sqrt(dim)))
    angles = np.linspace(first, math.pi - first, CELLS + 1)
    t = np.cos(angles)
    survival = np.asarray(share_of_cap(t, dim))
    survival[0], survival[-1] = 0.0, 1.0
    return Coordinate(t, survival, np.diff(survival), np.cos((angles[1:] + angles[:-1]) / 2))


def share_of_cap(height: Any, dim: int) -> Any:
    """Returns P(U₁ ≥ t) = 1 − I_{(1+t)/2}(α, α), α = (d−1)/2, accurate where it is small."""
    return require("scipy.special", "train").betainc((dim - 1) / 2, (dim - 1) / 2, (1 - height) / 2)


def quantile(probability: Array, dim: int) -> Array:
    """Returns the t with P(U₁ ≥ t) = probability, interpolated between those of `coordinate`."""
    xp = probability.__array_namespace__()
    law = coordinate(dim)
    points = (xp.asarray(column, dtype=probability.dtype) for column in (law.survival, law.t))
    return xp.interp(probability, *points)
