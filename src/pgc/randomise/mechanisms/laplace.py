"""`laplace`: Algorithm 2 of the paper.

Clip in L1 to C/2, add Laplace noise of scale C/ε to each coordinate.
"""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.exact.lattice import (
    LARGEST,
    LARGEST_EPSILON,
    decode_laplace,
    radius,
    release_laplace,
)
from pgc.randomise.mechanisms.base import (
    SMALLEST_CLIP,
    Array,
    Guarantee,
    Mechanism,
    require_finite_epsilon,
)
from pgc.randomise.mechanisms.clip import clip_l1
from pgc.randomise.mechanisms.forms import Codes, Event

SECONDS_EACH, SECONDS_AT_START = 300e-6, 2e-3
"""A release is padded to whole multiples of SECONDS_EACH for each number plus SECONDS_AT_START.
That is three times as long as the slowest draw that was measured (39 to 100 µs a number on a
desktop). It is for devices without slots."""


@dataclass(frozen=True, kw_only=True)
class AdditiveLaplace(Mechanism):
    """Laplace noise of scale C/ε on each coordinate of whatever `prepare` returns.

    **Guarantee.** `spread`·ε-LDP for the gradient, `spread` being the L1 diameter of the set that
    `prepare` clips to, in units of C: for any two gradients the densities of the report differ by a
    factor of at most e^(spread·C/scale).
    """

    traced = {"clip": np.float32, "scale": np.float32}
    # the default clips almost every gradient, so that its direction is reported
    default_clip, paper_clip = 2.0, 0.01

    def __post_init__(self) -> None:
        """Requires a finite ε: ε = ∞ is the mechanism `none`."""
        super().__post_init__()
        require_finite_epsilon(self)
        if not SMALLEST_CLIP <= self.clip / self.epsilon <= self.largest_clip:
            raise PgcError(
                f"clip / epsilon must be between {SMALLEST_CLIP:g} and {self.largest_clip:g}; "
                "change one of them"
            )

    @property
    @abstractmethod
    def spread(self) -> float:
        """The L1 diameter of the clipped gradients, divided by C. Where it is 1, the nominal ε
        holds.
        """

    @cached_property
    def scale(self) -> float:
        """C/ε (eq. lapnoise), rounded up so that C/scale ≤ ε, also after a simulation converts both
        to float32.
        """
        scale = self.clip / self.epsilon
        while self.clip / scale > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        while float(np.float32(self.clip)) / float(np.float32(scale)) > self.epsilon:
            scale = float(np.nextafter(np.float32(scale), np.float32(np.inf)))
        return scale

    @property
    def guarantee(self) -> Guarantee:
        """The guaranteed ε is the L1 diameter divided by the scale: spread·C/(C/ε)."""
        true = self.spread * (self.clip / self.scale)
        statement = (
            f"One report is {self.epsilon:g}-LDP for the whole gradient: L1 clip to "
            f"{self.clip / 2:g}, "
            f"Laplace noise of scale {self.scale:g} on each of {self.dim} coordinates."
            if self.spread <= 1
            else f"NOT {self.epsilon:g}-LDP: the gradient is clipped to a set of L1 diameter "
            f"{self.spread * self.clip:g} and gets noise for {self.clip:g}, "
            f"so one report is only {true:g}-LDP."
        )
        return Guarantee(epsilon=true, nominal_epsilon=self.epsilon, statement=statement)

    def error(self, norm: float = 1.0) -> float:
        """Returns 2·d·(C/ε)², the same for every gradient in the ball."""
        return 2 * self.dim * self.scale**2

    @property
    def secret_words(self) -> int:
        """One word for each coordinate."""
        return self.dim

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws ḡ + z, with z of Laplace(0, scale)."""
        return thresholds + self.scale * standard_laplace(secret, thresholds)

    def decode(self, code: Array, public: Array) -> Array:
        """Returns the code itself, which is an unbiased estimate of ḡ."""
        return code

    def event(self, words: Callable[[int], np.ndarray]) -> Event | None:
        """Returns gradients at opposite ends of the clip, and the event beyond the first end.

        Where the nominal ε does not hold, two coordinates are enough to show it.
        """
        corner = np.zeros(self.dim)
        corner[: 1 if self.spread <= 1 else 2] = 1e6 * self.clip
        one = np.asarray(self.prepare(corner, np.zeros(0, np.uint32)))
        edge = one[one > 0]

        def beyond(codes: Codes) -> np.ndarray:
            lattice = np.issubdtype(codes.dtype, np.integer)  # released codes: the edge is N
            far: Any = radius(self.epsilon) if lattice else edge * (1 - 1e-6)
            return np.asarray((codes[:, : len(edge)] >= far).all(axis=1))

        return Event(0, one, -one, beyond, 0.5 ** len(edge))


@dataclass(frozen=True, kw_only=True)
class Laplace(AdditiveLaplace):
    """Reports ḡ + z, with ḡ = g clipped in L1 to C/2, z_i ~ Lap(C/ε) (eqs. clip, bound_sen,
    lapnoise).

    **Guarantee.** ε-LDP for the whole gradient vector, against anyone who sees the report: for any
    two gradients, ‖ḡ − ḡ'‖₁ ≤ C, so the densities of the report differ by a factor of at most
    e^{ε·C/C} (Dwork et al. 2006; Lemma 2 of the paper). Assumption: real arithmetic. Floating-point
    noise has gaps that reveal its input, so these draws are for simulation and are never released;
    what is released is integers on a lattice (`exact/lattice.py`).
    """

    name = "laplace"
    wire_number = 1
    spread = 1.0

    @classmethod
    def fitting_clip(cls, dim: int) -> float:
        """Returns twice √(2d/π), which is about the L1 norm of such a gradient."""
        return 2 * math.sqrt(2 * dim / math.pi)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns ḡ, the gradient clipped in L1 to C/2."""
        return clip_l1(gradient, self.clip / 2)

    def refuse_release(self) -> None:
        """Raises an error unless codes may leave a device.

        The lattice is for this class alone: a subclass need not have its guarantee.
        """
        if type(self).exact_code is Laplace.exact_code and type(self) is not Laplace:
            raise PgcError(f"{type(self).__name__} has no exact form of its own; use laplace")
        if type(self) is not Laplace:
            return super().refuse_release()
        if self.epsilon > LARGEST_EPSILON:
            raise PgcError(
                f"laplace is released with an epsilon of at most {LARGEST_EPSILON}, not "
                f"{self.epsilon:g}"
            )

    def exact_code(self, gradient: np.ndarray, seed: bytes) -> list[int]:
        """Draws integers on the lattice."""
        return release_laplace(gradient, self.clip, self.epsilon)

    def decode_released(self, code: Any, seed: bytes) -> np.ndarray:
        """Returns the integers in units of the gradient."""
        return decode_laplace(code, self.clip, self.epsilon)

    @property
    def release_seconds(self) -> float:
        """A release is padded to a multiple of this: larger noise takes longer to draw."""
        return SECONDS_AT_START + SECONDS_EACH * self.dim

    @property
    def code_bits(self) -> int:
        """Four bytes for each number."""
        return 32 * self.dim

    def pack(self, code: Any) -> int:
        """Returns the numbers in four bytes each, as one number."""
        return int.from_bytes(struct.pack(f"<{self.dim}i", *code), "little")

    def unpack(self, number: int) -> list[int]:
        """Returns the integers of a report. Refuses one that is out of range."""
        numbers = list(struct.unpack(f"<{self.dim}i", number.to_bytes(4 * self.dim, "little")))
        if min(numbers) < -LARGEST:
            raise ValueError("a number is out of range")
        return numbers

    def in_words(self, code: Any) -> str:
        """Says what the integers are."""
        return (
            f"{len(code)} integers on a lattice: "
            f"{', '.join(map(str, code[:4]))}{' …' if len(code) > 4 else ''}"
        )


def standard_laplace(words: Array, like: Array) -> Array:
    """Returns Laplace(0, 1) numbers from uniform 32-bit words: the low bit is the sign, the rest an
    exponential by inversion.
    """
    xp = words.__array_namespace__()
    uniform = (xp.astype(words >> 1, like.dtype) + 0.5) * 2.0**-31  # in (0, 1]
    magnitude = -xp.log(uniform)
    return xp.where(words & 1 == 1, magnitude, -magnitude)
