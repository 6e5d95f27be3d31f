"""`prs`: Projected Random Sign, Algorithm 3 of the paper. Project to d̂ dimensions, clip, flip bits, project back."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import cached_property

import numpy as np

from pgc.errors import PgcError
from pgc.mechanisms.base import Array, Guarantee, Mechanism, require_finite_epsilon
from pgc.mechanisms.clip import HUGE, clip_elements

WORD = 2**32


def paper_reduced_dim(epsilon: float, dim: int) -> int:
    """d̂ = max{1, min{d, ⌊ε/2.5⌋}}, the paper's rule (after Wang et al. 2019)."""
    return max(1, min(dim, int(epsilon / 2.5)))


@dataclass(frozen=True, kw_only=True)
class ProjectedRandomSign(Mechanism):
    """u = M g with M ∈ R^{d̂×d} sparse ±√3; each u_i clipped to ±C and sent as one biased bit; decoded as Mᵀ ũ.

    P(bit_i = +) = 1/(e^{ε/d̂} + 1) + (ū_i + C)/(2C) · (e^{ε/d̂} − 1)/(e^{ε/d̂} + 1)    (eq. bitflip, with ε/d̂ in both places:
    the ε/k that the paper prints in the first would not be ε-LDP).

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report, for any M independent of the gradient:
    each bit's probability lies in [1/(e^{ε/d̂}+1), e^{ε/d̂}/(e^{ε/d̂}+1)] whatever the gradient is, so d̂ bits differ by at most
    e^ε (Lemma 3 of the paper). It holds for the integers that are compared, not only for the formula: a bit is set when
    a uniform 32-bit word is below an integer threshold in [t, 2³² − t], with t = ⌈2³²/(e^{ε/d̂} + 1)⌉ computed in 60-digit
    arithmetic and rounded up. A report is d̂ bits; it has no floating-point channel.

    As printed, Mᵀ ũ is a *scaled* estimate: E[Mᵀ ũ] = d̂·tanh(ε/2d̂)·g where nothing is clipped, direction only where
    |M g| ≫ C. ε therefore also changes the learning rate.
    """

    name = "prs"
    traced = {"clip": np.float32, "lowest_threshold": np.uint32, "highest_threshold": np.uint32}

    reduced_dim: int
    """d̂, the number of bits sent."""

    def __post_init__(self) -> None:
        """d̂ between 1 and d."""
        super().__post_init__()
        require_finite_epsilon(self)
        if not 1 <= self.reduced_dim <= self.dim:
            raise PgcError(f"reduced_dim must be between 1 and d = {self.dim}, not {self.reduced_dim}")

    @property
    def guarantee(self) -> Guarantee:
        """ε-LDP."""
        return Guarantee(
            epsilon=self.epsilon,
            nominal_epsilon=self.epsilon,
            statement=f"One report is {self.epsilon:g}-LDP for the whole gradient: {self.reduced_dim} random bit(s), each "
            f"{self.epsilon / self.reduced_dim:g}-LDP.",
        )

    @cached_property
    def lowest_threshold(self) -> int:
        """t: the fewest of 2³² words that set a bit. (2³² − t)/t ≤ e^{ε/d̂} exactly."""
        if self.epsilon / self.reduced_dim > WORD.bit_length():  # 2³²/(e^ε + 1) < 1, and e^ε may be too large to write down
            return 1
        with localcontext() as context:
            context.prec = 60
            exact = WORD / ((Decimal(self.epsilon) / self.reduced_dim).exp() + 1)
            return int(exact.to_integral_value(rounding=ROUND_CEILING))

    @cached_property
    def highest_threshold(self) -> int:
        """2³² − t: the most words that set a bit."""
        return WORD - self.lowest_threshold

    @property
    def secret_words(self) -> int:
        """One per bit."""
        return self.reduced_dim

    @property
    def public_words(self) -> int:
        """One per entry of M."""
        return self.reduced_dim * self.dim

    def projection(self, public: Array, dtype: object) -> Array:
        """M ∈ R^{d̂×d}: −√3, 0, +√3 with probabilities 1/6, 2/3, 1/6 (eq. randomMatrix)."""
        xp = public.__array_namespace__()
        sixth = WORD // 6
        signs = xp.astype(public >= np.uint32(WORD - sixth), dtype) - xp.astype(public < np.uint32(sixth), dtype)
        return xp.reshape(signs, (self.reduced_dim, self.dim)) * 3**0.5

    def prepare(self, gradient: Array, public: Array) -> Array:
        """One integer threshold in [t, 2³² − t] per bit (eqs. clip_prs, bitflip)."""
        xp = gradient.__array_namespace__()
        bounded = clip_elements(gradient, HUGE)
        u = clip_elements(xp.sum(self.projection(public, gradient.dtype) * bounded, axis=1), self.clip)
        lowest, highest = (xp.asarray(t, dtype=xp.uint32) for t in (self.lowest_threshold, self.highest_threshold))
        span = xp.astype(highest - lowest, u.dtype)
        # In float arithmetic 2³² itself can be reached, so stay below before converting; the ends are set exactly.
        inside = xp.minimum((u / self.clip + 1) / 2 * span, 0.9999999 * span)
        threshold = lowest + xp.astype(inside, xp.uint32)
        return xp.where(u >= self.clip, highest, xp.minimum(threshold, highest))

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """d̂ bits."""
        return secret < thresholds

    def decode(self, code: Array, public: Array) -> Array:
        """Mᵀ ũ, ũ_i = ±C."""
        xp = public.__array_namespace__()
        u = xp.where(code, self.clip, -self.clip)
        m = self.projection(public, u.dtype)
        return xp.sum(m * u[:, None], axis=0)
