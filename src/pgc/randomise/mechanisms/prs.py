"""`prs`: Projected Random Sign, Algorithm 3 of the paper.

Project to d̂ dimensions, clip, flip bits, project back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.mechanisms.base import Array, Guarantee, Mechanism, require_finite_epsilon
from pgc.randomise.mechanisms.clip import HUGE, clip_elements
from pgc.randomise.mechanisms.forms import UNBIASED, Event, WireForm
from pgc.randomise.mechanisms.randomized_response import WORD, keep_threshold

MOST_BITS = 23
"""A report of bits has at most 24, the noisy boolean included, and so 16 bytes in all."""


def paper_reduced_dim(epsilon: float, dim: int) -> int:
    """Returns d̂ = max{1, min{d, ⌊ε/2.5⌋}}, the paper's rule (after Wang et al. 2019)."""
    return max(1, min(dim, int(epsilon / 2.5)))


@dataclass(frozen=True, kw_only=True)
class ProjectedRandomSign(Mechanism):
    """Sends each u_i of u = M g, clipped to ±C, as one biased bit, with a sparse M ∈ R^{d̂×d} of
    ±√3; the bits are decoded as Mᵀ ũ.

    P(bit_i = +) = 1/(e^{ε/d̂} + 1) + (ū_i + C)/(2C) · (e^{ε/d̂} − 1)/(e^{ε/d̂} + 1)

    (eq. bitflip, with ε/d̂ in both places:
    the ε/k that the paper prints in the first would not be ε-LDP).

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report, for any M
    independent of the gradient: each bit's probability lies in [1/(e^{ε/d̂}+1),
    e^{ε/d̂}/(e^{ε/d̂}+1)] whatever the gradient is, so d̂ bits differ by at most e^ε (Lemma 3 of
    the paper). It holds for the integers that are compared, not only for the formula: a bit is set
    when a uniform 32-bit word is below an integer threshold in [t, 2³² − t], with t =
    ⌈2³²/(e^{ε/d̂} + 1)⌉ computed in 60-digit arithmetic and rounded up. A report is d̂ bits; it has
    no floating-point channel.

    As the paper prints it, ũ_i = ±C and Mᵀ ũ is a *scaled* estimate: E[Mᵀ ũ] = d̂·tanh(ε/2d̂)·g
    where nothing is clipped; where |M g| ≫ C, it estimates only the direction. ε therefore also
    changes the learning rate.
    With `unbiased`, ũ is divided by d̂·tanh(ε/2d̂).
    """

    name = "prs"
    integers = True
    wire_number = 2
    paper_buffer = 100
    traced = {
        "clip": np.float32,
        "lowest_threshold": np.uint32,
        "highest_threshold": np.uint32,
        "size": np.float32,
    }

    reduced_dim: int
    """d̂, the number of bits sent."""
    unbiased: bool = False
    """Whether the report is scaled to be an unbiased estimate where nothing is clipped. The paper's
    is not."""

    def __post_init__(self) -> None:
        """Requires 1 ≤ d̂ ≤ d and a finite ε."""
        super().__post_init__()
        require_finite_epsilon(self)
        if not 1 <= self.reduced_dim <= self.dim:
            raise PgcError(
                f"reduced_dim must be between 1 and d = {self.dim}, not {self.reduced_dim}"
            )

    @classmethod
    def make(cls, *, dim: int, epsilon: float, clip: float, **options: Any) -> Mechanism:
        """Returns the mechanism with the given d̂ or the paper's, unbiased if asked for."""
        d_hat = options.get("reduced_dim") or paper_reduced_dim(epsilon, dim)
        return cls(
            dim=dim,
            epsilon=epsilon,
            clip=clip,
            reduced_dim=d_hat,
            unbiased=bool(options.get("unbiased")),
        )

    @classmethod
    def fitting_clip(cls, dim: int) -> float:
        """Returns 3, which the projections of such a gradient rarely exceed."""
        return 3.0

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee is ε-LDP, in the integers that are compared."""
        return Guarantee(
            epsilon=self.epsilon,
            nominal_epsilon=self.epsilon,
            statement=f"One report is {self.epsilon:g}-LDP for the whole gradient: "
            f"{self.reduced_dim} random bit(s), each {self.epsilon / self.reduced_dim:g}-LDP.",
        )

    @cached_property
    def lowest_threshold(self) -> int:
        """t: the fewest of 2³² words that set a bit. (2³² − t)/t ≤ e^{ε/d̂} exactly."""
        return WORD - self.highest_threshold

    @cached_property
    def highest_threshold(self) -> int:
        """2³² − t: the most words that set a bit."""
        with localcontext() as context:
            context.prec = 60
            share = Decimal(self.epsilon) / self.reduced_dim
        return keep_threshold(share)

    @property
    def lean(self) -> float:
        """τ = tanh(ε/2d̂), computed from the integer thresholds.

        It is the probability that a bit at ±C tells the truth, minus the probability that it lies.
        """
        return (self.highest_threshold - self.lowest_threshold) / WORD

    @cached_property
    def size(self) -> float:
        """The absolute value of ũ_i."""
        return self.clip / (self.reduced_dim * self.lean) if self.unbiased else self.clip

    def error(self, norm: float = 1.0) -> float:
        """Returns s²·(d̂·d + d̂(d̂−1)·(τ‖g‖/C)²) − 2·s·d̂·τ‖g‖²/C + ‖g‖² with |ũ_i| = s; this is
        C²·d/(d̂τ²) − ‖g‖²/d̂ if unbiased.

        It holds where |M g| ≤ C, which is nearly sure only for a g that is small compared with C.
        """
        d_hat, share = self.reduced_dim, self.lean / self.clip
        spread = self.size**2 * (d_hat * self.dim + d_hat * (d_hat - 1) * (share * norm) ** 2)
        return spread - 2 * self.size * d_hat * share * norm**2 + norm**2

    @property
    def report_bytes(self) -> int:
        """A bit for each projection."""
        return -(-self.reduced_dim // 8)

    @property
    def secret_words(self) -> int:
        """One word for each bit."""
        return self.reduced_dim

    @property
    def public_words(self) -> int:
        """One word for each entry of M."""
        return self.reduced_dim * self.dim

    def projection(self, public: Array, dtype: object) -> Array:
        """Returns M ∈ R^{d̂×d}: −√3, 0, +√3 with probabilities 1/6, 2/3, 1/6 (eq. randomMatrix)."""
        return public.__array_namespace__().reshape(
            _entries(public, dtype), (self.reduced_dim, self.dim)
        )

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns one integer threshold in [t, 2³² − t] per bit (eqs. clip_prs, bitflip)."""
        xp = gradient.__array_namespace__()
        bounded = clip_elements(gradient, HUGE)
        u = clip_elements(self._projected(bounded, public), self.clip)
        lowest, highest = (
            xp.asarray(t, dtype=xp.uint32) for t in (self.lowest_threshold, self.highest_threshold)
        )
        span = xp.astype(highest - lowest, u.dtype)
        # In float arithmetic 2³² itself can be reached, so stay below before converting; the ends
        # are set exactly.
        inside = xp.minimum((u / self.clip + 1) / 2 * span, 0.9999999 * span)
        threshold = lowest + xp.astype(inside, xp.uint32)
        return xp.where(u >= self.clip, highest, xp.minimum(threshold, highest))

    def _projected(self, bounded: Array, public: Array) -> Array:
        """Returns M g without storing M: row by row in NumPy, and fused by a compiler."""
        xp = bounded.__array_namespace__()
        if not isinstance(public, np.ndarray):
            return xp.sum(self.projection(public, bounded.dtype) * bounded, axis=1)
        return np.stack(
            [
                np.sum(_entries(words, bounded.dtype) * bounded)
                for words in public.reshape(-1, self.dim)
            ]
        )

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws d̂ bits, each by its threshold."""
        return secret < thresholds

    def decode(self, code: Array, public: Array) -> Array:
        """Returns Mᵀ ũ, in the gradient's dimensions."""
        xp = public.__array_namespace__()
        u = xp.where(code, self.size, -self.size)
        if not isinstance(public, np.ndarray):
            return xp.sum(self.projection(public, u.dtype) * u[:, None], axis=0)
        total = np.zeros(self.dim)
        for sign, words in zip(u, public.reshape(-1, self.dim), strict=True):
            total += sign * _entries(words, u.dtype)
        return total

    def to_wire(self) -> WireForm:
        """Returns d̂, C, and whether it is decoded to be unbiased."""
        assert self.wire_number is not None
        return WireForm(
            self.wire_number,
            self.clip,
            size=self.reduced_dim,
            flags=UNBIASED if self.unbiased else 0,
        )

    @classmethod
    def from_wire(cls, form: WireForm, *, dim: int, epsilon: float) -> Mechanism:
        """Returns the mechanism with this d̂."""
        if not 1 <= form.size <= MOST_BITS:
            raise PgcError(f"{form.size} bits; 1 to {MOST_BITS} are possible")
        if form.flags not in (0, UNBIASED):
            raise PgcError("flags are unknown")
        if form.nearest:
            raise PgcError("the number of nearest must be 0 for this mechanism")
        return cls(
            dim=dim,
            epsilon=epsilon,
            clip=form.clip,
            reduced_dim=form.size,
            unbiased=bool(form.flags & UNBIASED),
        )

    @property
    def code_bits(self) -> int:
        """A bit for each projection."""
        return self.reduced_dim

    def event(self, words: Callable[[int], np.ndarray]) -> Event | None:
        """Returns gradients that saturate every bit, and the event that all bits are set."""
        for number in range(1000):
            m = self.projection(words(number), np.float64)
            if np.linalg.matrix_rank(m) == self.reduced_dim:
                break
        one = np.linalg.pinv(m) @ np.full(self.reduced_dim, 4 * self.clip)
        likely = (self.highest_threshold / WORD) ** self.reduced_dim
        return Event(number, one, -one, lambda codes: np.asarray(codes.all(axis=1)), likely)

    @property
    def parameters(self) -> list[str]:
        """C and d̂, in symbols."""
        return [*super().parameters, f"d̂ = {self.reduced_dim}"]


def _entries(words: Array, dtype: object) -> Array:
    """Returns entries of M, one for each word."""
    xp = words.__array_namespace__()
    sixth = WORD // 6
    signs = xp.astype(words >= np.uint32(WORD - sixth), dtype) - xp.astype(
        words < np.uint32(sixth), dtype
    )
    return signs * 3**0.5
