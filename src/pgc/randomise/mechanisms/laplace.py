"""`laplace`: Algorithm 2 of the paper. Clip in L1 to C/2, add Laplace noise of scale C/ε to each coordinate."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.mechanisms.base import SMALLEST_CLIP, Array, Guarantee, Mechanism, require_finite_epsilon
from pgc.randomise.mechanisms.clip import clip_l1


@dataclass(frozen=True, kw_only=True)
class AdditiveLaplace(Mechanism):
    """Laplace noise of scale C/ε on each coordinate of whatever `prepare` returns.

    **Guarantee.** `spread`·ε-LDP for the gradient, `spread` being the L1 diameter of the set that `prepare` clips to, in units of
    C: for any two gradients the densities of the report differ by a factor of at most e^(spread·C/scale).
    """

    traced = {"clip": np.float32, "scale": np.float32}

    def __post_init__(self) -> None:
        """ε = ∞ is the mechanism `none`."""
        super().__post_init__()
        require_finite_epsilon(self)
        if not SMALLEST_CLIP <= self.clip / self.epsilon <= self.largest_clip:
            raise PgcError(f"clip / epsilon must be between {SMALLEST_CLIP:g} and {self.largest_clip:g}; change one of them")

    @property
    @abstractmethod
    def spread(self) -> float:
        """The L1 diameter of the clipped gradients, over C. The promise is honest where it is 1."""

    @cached_property
    def scale(self) -> float:
        """C/ε (eq. lapnoise), rounded up, so that C/scale ≤ ε; also for the float32 numbers that a simulation makes of both."""
        scale = self.clip / self.epsilon
        while self.clip / scale > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        while float(np.float32(self.clip)) / float(np.float32(scale)) > self.epsilon:
            scale = float(np.nextafter(np.float32(scale), np.float32(np.inf)))
        return scale

    @property
    def guarantee(self) -> Guarantee:
        """L1 diameter over scale: spread·C/(C/ε)."""
        true = self.spread * (self.clip / self.scale)
        statement = (
            f"One report is {self.epsilon:g}-LDP for the whole gradient: L1 clip to {self.clip / 2:g}, "
            f"Laplace noise of scale {self.scale:g} on each of {self.dim} coordinates."
            if self.spread <= 1
            else f"NOT {self.epsilon:g}-LDP: the gradient is clipped to a set of L1 diameter {self.spread * self.clip:g} and "
            f"gets noise for {self.clip:g}, so one report is only {true:g}-LDP."
        )
        return Guarantee(epsilon=true, nominal_epsilon=self.epsilon, statement=statement)

    def error(self, norm: float = 1.0) -> float:
        """2·d·(C/ε)², whatever the gradient in the ball."""
        return 2 * self.dim * self.scale**2

    @property
    def secret_words(self) -> int:
        """One per coordinate."""
        return self.dim

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """ḡ + z."""
        return thresholds + self.scale * standard_laplace(secret, thresholds)

    def decode(self, code: Array, public: Array) -> Array:
        """The report is an unbiased estimate of ḡ as it is."""
        return code


@dataclass(frozen=True, kw_only=True)
class Laplace(AdditiveLaplace):
    """ḡ + z, ḡ = g clipped in L1 to C/2, z_i ~ Lap(C/ε) (eqs. clip, bound_sen, lapnoise).

    **Guarantee.** ε-LDP for the whole gradient vector, against anyone who sees the report: for any two gradients,
    ‖ḡ − ḡ'‖₁ ≤ C, so the densities of the report differ by a factor of at most e^{ε·C/C} (Dwork et al. 2006; Lemma 2 of
    the paper). Assumption: real arithmetic. Floating-point noise has gaps that betray its input, so these draws are
    for simulation and are never released.
    """

    name = "laplace"
    spread = 1.0

    def prepare(self, gradient: Array, public: Array) -> Array:
        """ḡ."""
        return clip_l1(gradient, self.clip / 2)


def standard_laplace(words: Array, like: Array) -> Array:
    """Laplace(0, 1) from uniform 32-bit words: the low bit is the sign, the rest an exponential by inversion."""
    xp = words.__array_namespace__()
    uniform = (xp.astype(words >> 1, like.dtype) + 0.5) * 2.0**-31  # in (0, 1]
    magnitude = -xp.log(uniform)
    return xp.where(words & 1 == 1, magnitude, -magnitude)
