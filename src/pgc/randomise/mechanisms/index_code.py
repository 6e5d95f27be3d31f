"""`index`: sends a direction as one or two bytes.

They are the number of a vector in a public random code; near vectors are e^ε times as likely.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import cache, cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from pgc.errors import PgcError, require
from pgc.randomise.mechanisms import hadamard_code
from pgc.randomise.mechanisms.base import Array, Mechanism
from pgc.randomise.mechanisms.forms import Event, WireForm
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.randomise.mechanisms.sphere import (
    TINY,
    Moments,
    OnSphere,
    coordinate,
    leaning,
    likelihood_ratio,
    normal_words,
    quantile,
    refuse_clip,
    scaled,
    uniform_direction,
    unit,
)  # fmt: skip

QUANTILES = 512
LARGEST_DENSE = 2**24
"""The most numbers of a code that is made as a whole: 16 MiB of public bytes."""
NORMAL_BYTES = tuple(round(4096 * NormalDist().inv_cdf((b + 0.5) / 256)) for b in range(256))
"""4096·Φ⁻¹((b + ½)/256), rounded: a byte as a nearly normal number. A code's directions are uniform
to a part in a thousand."""


def code_size_for(epsilon: float) -> int:
    """Returns M: one byte up to ε = 2, where a larger code gains less than 1 %, else 4096 (two
    bytes).
    """
    return 256 if epsilon <= 2 else 4096


@dataclass(frozen=True, kw_only=True)
class IndexCode(OnSphere):
    """Sends the number j of one of the vectors Z_1 … Z_M, which are uniform on the sphere, public,
    and fresh for each report.

    S is the set of the k vectors nearest to u. P(j) is e^ε times as large for j ∈ S as for others,
    and j is decoded as Z_j/m. This is subset selection (Ye and Barg 2018) over a random spherical
    code, as in MMRC (Shah et al. 2022). It has nearly the error of `privunit` at a few hundredths
    of its size. k is chosen to maximise m. The expectation is over the code, so one code must not
    serve many reports.

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report, for *any* code,
    so a hostile seed can hurt utility only: S has exactly k members (ties by number), hence P(j)
    takes two values, of ratio at most e^ε, whatever u is. It holds for the integers that are
    compared, not only for the formula (see `inside`). The report is an integer: it has no
    floating-point channel.
    """

    name = "index"
    one_length = True
    integers = True
    wire_number = 5
    lifts = True
    traced = {"inside": np.uint32, "members": np.uint32, "size": np.float32, "border": np.float32}

    code_size: int
    """M, the number of vectors in the code."""
    nearest: int | None = None
    """k, if it is given. An offer carries it, so that a device needs no special functions to find
    it."""

    def __post_init__(self) -> None:
        """Requires 2 ≤ M ≤ 65536 and, if k is given, 1 ≤ k < M."""
        super().__post_init__()
        if not 2 <= self.code_size <= 2**16:
            raise PgcError(
                f"code_size must be between 2 and 65536 (two bytes), not {self.code_size}"
            )
        if self.nearest is not None and not 1 <= self.nearest < self.code_size:
            raise PgcError(
                f"nearest must be between 1 and {self.code_size - 1} of {self.code_size} vectors, "
                f"not {self.nearest}"
            )

    @classmethod
    def make(cls, *, dim: int, epsilon: float, clip: float, **options: Any) -> Mechanism:
        """Returns the mechanism with the given code size, or with the one that suits ε."""
        return cls(
            dim=dim,
            epsilon=epsilon,
            clip=clip,
            code_size=options.get("code_size") or code_size_for(epsilon),
        )

    @property
    def how(self) -> str:
        """Says what is sent, in words."""
        likelier = (
            f"{likelihood_ratio(self.epsilon)} times as likely for the {self.members} nearest to it"
        )
        return f"the number of one of {self.code_size} public random vectors, {likelier}"

    @cached_property
    def members(self) -> int:
        """Size k of the set S: the given one, or the k with the least expected error at this ε."""
        return self.nearest or best_members(self.dim, self.epsilon, self.code_size)

    @cached_property
    def inside(self) -> int:
        """How many of 2³² words choose S rather than the rest.

        A second word then chooses one of the k members as ⌊word·k/2³²⌋, so that some members have
        one word more than others. `inside` is the largest number with which even the likeliest
        member is at most e^ε times as likely as the least likely vector outside S.
        """
        k, rest = self.members, self.code_size - self.members
        likeliest, least = -(-WORD // k), WORD // rest  # of 2³² second words
        with localcontext() as context:
            context.prec = 80
            # the most that inside/(2³² − inside) may be
            odds = Decimal(min(self.epsilon, 60)).exp() * least / likeliest
            return min(
                WORD - 1, int((WORD * odds / (1 + odds)).to_integral_value(rounding=ROUND_FLOOR))
            )

    @cached_property
    def moments(self) -> Moments:
        """The moments of Z_j over the random code, as sums over the cells of `coordinate`."""
        law, k, size = coordinate(self.dim), self.members, self.code_size
        chosen = self.inside / WORD
        weight = size * (
            chosen / k * (near := _in_nearest(self.dim, k, size))
            + (1 - chosen) / (size - k) * (1 - near)
        )
        along = float(np.sum(law.mass * law.middle**2 * weight))
        return Moments(
            float(np.sum(law.mass * law.middle * weight)), along, (1 - along) / (self.dim - 1)
        )

    @cached_property
    def size(self) -> float:
        """1/m, the length of a decoded report."""
        return 1 / self.moments.mean

    @cached_property
    def border(self) -> np.ndarray:
        """Quantiles of the share of the sphere that is nearer to u than the nearest vector outside
        S, which has the distribution Beta(k + 1, M − k).
        """
        special = require("scipy.special", "train")
        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        made: np.ndarray = special.betaincinv(
            self.members + 1, self.code_size - self.members, levels
        )
        return made

    @property
    def report_bytes(self) -> int:
        """One byte up to 256 vectors, two beyond."""
        return 1 if self.code_size <= 256 else 2

    @property
    def secret_words(self) -> int:
        """Two words: one decides whether the vector is in S, the other which vector it is."""
        return 2

    @property
    def dense(self) -> bool:
        """Whether the code is small enough to be made as a whole; if not, no more than one vector
        of it is made at a time (`hadamard_code.py`).
        """
        return self.code_size * self.dim <= LARGEST_DENSE

    @property
    def public_words(self) -> int:
        """The words of a byte for each number of the code; or, if it is not dense, those of the
        signs and rows of `hadamard_code.py`.
        """
        return (
            -(-self.code_size * self.dim // 4)
            if self.dense
            else hadamard_code.words(self.dim, self.code_size)
        )

    def code(self, public: Array, which: Any = slice(None)) -> Array:
        """Returns Z (M, d), or one row of it, not yet scaled to length 1."""
        xp = public.__array_namespace__()
        rows = xp.reshape(as_bytes(public)[: self.code_size * self.dim], (self.code_size, self.dim))
        return xp.asarray(NORMAL_BYTES, dtype=xp.float32)[rows[which]]

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns which vectors are in S: exactly the k nearest to u, with ties broken by number.

        For a gradient without a direction, S has the first k: any would do.
        """
        xp = gradient.__array_namespace__()
        if self.dense:
            z = self.code(public)  # never zero: NORMAL_BYTES has no zero
            near = xp.matmul(z, xp.astype(scaled(gradient), xp.float32)) / xp.sqrt(xp.vecdot(z, z))
        else:
            near = hadamard_code.products(scaled(gradient), public, self.dim, self.code_size)
        order = xp.argsort(-near, stable=True)
        return xp.argsort(order) < xp.asarray(self.members, dtype=xp.uint32)

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws the number j of a vector of the code."""
        xp = thresholds.__array_namespace__()
        inside = secret[0] < xp.asarray(self.inside, dtype=xp.uint32)
        members = xp.asarray(self.members, dtype=xp.uint32)
        place = _share(secret[1], xp.where(inside, members, self.code_size - members))
        mine = thresholds == inside
        return xp.argmax(mine & (xp.cumulative_sum(xp.astype(mine, xp.uint32)) == place + 1))

    def decode(self, code: Array, public: Array) -> Array:
        """Returns Z_j/m, an unbiased estimate of the direction."""
        xp = public.__array_namespace__()
        z = (
            self.code(public, code)
            if self.dense
            else hadamard_code.vector(code, public, self.dim, self.code_size)
        )
        return self.size / xp.maximum(xp.sqrt(xp.sum(z**2)), xp.asarray(TINY, dtype=z.dtype)) * z

    @property
    def simulated_words(self) -> tuple[int, int]:
        """The public words of a substitute direction, and the secret words that are drawn from."""
        return normal_words(self.dim), 4 + normal_words(self.dim)

    def simulate(self, gradient: Array, public: Array, secret: Array) -> Array:
        """Returns a report with the same distribution, without making the code.

        Only ⟨Z_j, u⟩ matters, and the rest of Z_j is uniform. Let b be the share of the sphere that
        is nearer to u than the nearest Z outside S. Given b, the vectors in S are uniform among the
        nearer points; of the others, one is at b, and the rest are uniform beyond it.
        """
        xp = gradient.__array_namespace__()
        u = unit(self.flat(gradient), uniform_direction(public, self.dim, gradient.dtype))
        level, where, lot = ((xp.astype(w, u.dtype) + 0.5) * 2.0**-32 for w in secret[1:4])
        levels = xp.asarray((np.arange(QUANTILES) + 0.5) / QUANTILES, dtype=u.dtype)
        b = xp.interp(level, levels, xp.asarray(self.border, dtype=u.dtype))
        rest = self.code_size - xp.asarray(self.members, dtype=u.dtype)
        outside = xp.where(lot * rest < 1, b, b + (1 - b) * where)
        inside = secret[0] < xp.asarray(self.inside, dtype=xp.uint32)
        along = quantile(xp.where(inside, b * where, outside), self.dim)
        return self.size * leaning(along, u, secret[4:])

    def to_wire(self) -> WireForm:
        """Returns M and k."""
        return super().to_wire()._replace(size=self.code_size, nearest=self.members)

    @classmethod
    def from_wire(cls, form: WireForm, *, dim: int, epsilon: float) -> Mechanism:
        """Returns the mechanism with this M and k."""
        refuse_clip(form)
        if form.flags:
            raise PgcError("flags are unknown")
        return cls(
            dim=dim, epsilon=epsilon, clip=form.clip, code_size=form.size, nearest=form.nearest
        )

    @property
    def code_bits(self) -> int:
        """The number of bits of the largest number."""
        return (self.code_size - 1).bit_length()

    def pack(self, code: Any) -> int:
        """Returns the code itself, as an int."""
        return int(code)

    def unpack(self, number: int) -> int:
        """Returns the number; raises ValueError if no vector has it."""
        if number >= self.code_size:
            raise ValueError(f"number {number} of a code of {self.code_size}")
        return number

    def opposite(
        self, gradient: np.ndarray, words: Callable[[int], np.ndarray], prepare: Callable[..., Any]
    ) -> Event | None:
        """Returns the event that the vector is near the gradient, and not near its opposite."""
        near, far = (np.asarray(prepare(g, words(0))) for g in (gradient, -gradient))
        wanted = near & ~far  # all of `near`, where at most half of the vectors are near
        likely = self.inside / WORD * wanted.sum() / near.sum()
        return Event(
            0, gradient, -gradient, lambda codes: wanted[codes.ravel().astype(int)], likely
        )

    def extremes(self, words: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        """Returns gradients with the fewest and the most vectors in S. All should have k; the audit
        checks that they do.
        """
        return fewest_and_most(self, words(0))

    @property
    def parameters(self) -> list[str]:
        """M and k, in symbols."""
        return [*super().parameters, f"M = {self.code_size}", f"k = {self.members}"]

    def in_words(self, code: Any) -> str:
        """Says which vector it is."""
        return f"vector {int(code)} of {self.code_size} in a public random code"


def fewest_and_most(mechanism: Mechanism, words: np.ndarray) -> list[np.ndarray]:
    """Returns, of many random gradients, the two for which `prepare` marks the fewest and the most
    vectors.
    """
    tried = mechanism.clip * np.random.default_rng(2).standard_normal((300, mechanism.dim))
    sizes = [int(np.asarray(mechanism.prepare(g, words)).sum()) for g in tried]
    return [tried[int(np.argmin(sizes))], tried[int(np.argmax(sizes))]]


def as_bytes(words: Array) -> Array:
    """Returns the bytes of 32-bit words, the lowest of each first."""
    if isinstance(words, np.ndarray):
        return words.astype("<u4", copy=False).view(np.uint8)
    xp = words.__array_namespace__()
    return xp.reshape((words[:, None] >> xp.asarray([0, 8, 16, 24], dtype=xp.uint32)) & 0xFF, (-1,))


def _share(word: Array, count: Array) -> Array:
    """Returns ⌊word·count/2³²⌋ in 32-bit arithmetic, for count ≤ 2¹⁶."""
    high, low = word >> 16, word & 0xFFFF
    return (high * count + ((low * count) >> 16)) >> 16


@cache
def _in_nearest(dim: int, k: int, size: int) -> np.ndarray:
    """Returns P(a vector at the middle of each cell is among the k nearest of `size`), which is the
    probability that at most k − 1 of the others are nearer.
    """
    special = require("scipy.special", "train")
    law = coordinate(dim)
    nearer = (law.survival[1:] + law.survival[:-1]) / 2
    made: np.ndarray = special.betainc(size - k, k, 1 - nearer)
    return made


@cache
def best_members(dim: int, epsilon: float, size: int) -> int:
    """Returns the k that maximises m, in real arithmetic: m has one maximum in k."""
    law = coordinate(dim)

    def mean(k: int) -> float:
        # the expected sum of ⟨Z, u⟩ over S
        top = size * float(np.sum(law.mass * law.middle * _in_nearest(dim, k, size)))
        share = 1 / (k + (size - k) * math.exp(-min(epsilon, 700)))
        return top * share * (1 - math.exp(-min(epsilon, 700)))

    low, high = 1, size - 1
    while low < high:
        middle = (low + high) // 2
        if mean(middle) < mean(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low
