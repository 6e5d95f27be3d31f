"""`piecewise`: sends a few coordinates, each by the piecewise mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.mechanisms.base import Array, Guarantee, Mechanism, require_finite_epsilon
from pgc.randomise.mechanisms.clip import clip_elements
from pgc.randomise.mechanisms.forms import Event
from pgc.randomise.mechanisms.prs import paper_reduced_dim


@dataclass(frozen=True, kw_only=True)
class Piecewise(Mechanism):
    """Sends k public random coordinates, each clipped to ±C, by the piecewise mechanism with ε/k;
    decoding multiplies them by d/k.

    Wang et al. (2019), Algorithms 2 and 4, with their k = max{1, min{d, ⌊ε/2.5⌋}}. For t = x/C ∈
    [−1, 1] the report is uniform on [ℓ, r] with probability e^{ε/2k}/(e^{ε/2k}+1), else on the rest
    of [−A, A], where A = (e^{ε/2k}+1)/(e^{ε/2k}−1), ℓ = (A+1)/2·t − (A−1)/2, r = ℓ + A − 1.
    The estimate is unbiased where nothing is clipped.

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report: which
    coordinates are sent does not depend on the gradient, and the density of each takes two values,
    of ratio e^{ε/k}. Assumption: real arithmetic. These draws are floating-point numbers, for
    simulation, and are never released.
    """

    name = "piecewise"
    default_clip = 0.7
    traced = {"clip": np.float32, "reach": np.float32, "centre": np.float32}

    sampled: int
    """k, the number of coordinates that are sent."""

    def __post_init__(self) -> None:
        """Requires 1 ≤ k ≤ d and a finite ε: ε = ∞ is the mechanism `none`."""
        super().__post_init__()
        require_finite_epsilon(self)
        if not 1 <= self.sampled <= self.dim:
            raise PgcError(f"reduced_dim must be between 1 and d = {self.dim}, not {self.sampled}")

    @classmethod
    def make(cls, *, dim: int, epsilon: float, clip: float, **options: Any) -> Mechanism:
        """Returns the mechanism with k = `reduced_dim` if given, else with that of Wang et al."""
        return cls(
            dim=dim,
            epsilon=epsilon,
            clip=clip,
            sampled=options.get("reduced_dim") or paper_reduced_dim(epsilon, dim),
        )

    @classmethod
    def fitting_clip(cls, dim: int) -> float:
        """Returns √(2·ln(2d)/d), which the coordinates of such a gradient rarely exceed."""
        return min(1.0, math.sqrt(2 * math.log(2 * dim) / dim))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee is ε-LDP, in real arithmetic."""
        statement = (
            f"One report is {self.epsilon:g}-LDP for the whole gradient: {self.sampled} of "
            f"{self.dim} coordinates, chosen "
            f"publicly, each {self.epsilon / self.sampled:g}-LDP by the piecewise mechanism."
        )
        return Guarantee(epsilon=self.epsilon, nominal_epsilon=self.epsilon, statement=statement)

    @cached_property
    def reach(self) -> float:
        """A: reports lie in [−A, A]."""
        return 1 / math.tanh(self.epsilon / self.sampled / 4)

    @cached_property
    def centre(self) -> float:
        """The probability of [ℓ, r]."""
        return 1 / (1 + math.exp(-self.epsilon / self.sampled / 2))

    def error(self, norm: float = 1.0) -> float:
        """Returns Σ_i (d/k)·(Var_i + x_i²) − x_i², with
        Var_i = x_i²/(e^{ε/2k}−1) + C²·(e^{ε/2k}+3)/(3(e^{ε/2k}−1)²).
        """
        grown = math.expm1(self.epsilon / self.sampled / 2)
        variance = norm**2 / grown + self.dim * self.clip**2 * (grown + 4) / (3 * grown**2)
        return self.dim / self.sampled * (variance + norm**2) - norm**2

    @property
    def report_bytes(self) -> int:
        """A float32 for each coordinate that is sent; which ones are sent is public."""
        return 4 * self.sampled

    @property
    def secret_words(self) -> int:
        """Two words for each coordinate that is sent."""
        return 2 * self.sampled

    @property
    def public_words(self) -> int:
        """One word for each coordinate: those with the smallest words are sent."""
        return self.dim

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns t = x/C of the sampled coordinates."""
        xp = gradient.__array_namespace__()
        return xp.take(clip_elements(gradient, self.clip), self._which(public)) / self.clip

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws one number in [−A, A] for each sampled coordinate."""
        xp = thresholds.__array_namespace__()
        uniform = (xp.astype(secret, thresholds.dtype) + 0.5) * 2.0**-32
        choice, place = uniform[: self.sampled], uniform[self.sampled :]
        low = (self.reach + 1) / 2 * thresholds - (self.reach - 1) / 2
        length = self.reach - 1
        # a point of [−A, A] from which [ℓ, r] was cut out
        outside = place * (self.reach + 1) - self.reach
        outside = xp.where(outside < low, outside, outside + length)
        return xp.where(choice < self.centre, low + length * place, outside)

    def event(self, words: Callable[[int], np.ndarray]) -> Event | None:
        """Returns gradients at opposite ends of the clip, and the event that every number is in the
        interval of the first.
        """
        one = np.full(self.dim, self.clip)
        return Event(
            0,
            one,
            -one,
            lambda codes: np.asarray((codes >= 1).all(axis=1)),
            self.centre**self.sampled,
        )

    def decode(self, code: Array, public: Array) -> Array:
        """Returns C·d/k times each number in the place of its coordinate, and zero elsewhere."""
        xp = public.__array_namespace__()
        which = self._which(public)
        places = xp.arange(self.dim)[:, None] == which[None, :]
        return (
            self.clip
            * self.dim
            / self.sampled
            * xp.sum(xp.where(places, code[None, :], 0.0), axis=1)
        )

    def _which(self, public: Array) -> Array:
        return public.__array_namespace__().argsort(public)[: self.sampled]
