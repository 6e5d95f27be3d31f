"""`laplace`: Algorithm 2 of the paper. Clip in L1 to C/2, add Laplace noise of scale C/ε to each coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgc.mechanisms.base import Array, Guarantee, Mechanism, require_finite_epsilon
from pgc.mechanisms.clip import clip_elements, clip_l1


@dataclass(frozen=True, kw_only=True)
class AdditiveLaplace(Mechanism):
    """Laplace noise of scale C/ε on each coordinate of whatever `prepare` returns."""

    def __post_init__(self) -> None:
        """ε = ∞ is the mechanism `none`."""
        super().__post_init__()
        require_finite_epsilon(self)

    @property
    def scale(self) -> float:
        """C/ε (eq. lapnoise): the L1 diameter C of a ball of radius C/2, over ε; rounded up, so that C/scale ≤ ε."""
        scale = self.clip / self.epsilon
        while self.clip / scale > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        return scale

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

    @property
    def guarantee(self) -> Guarantee:
        """L1 diameter over scale: C / (C/ε) = ε."""
        return Guarantee(
            epsilon=self.clip / self.scale,
            nominal_epsilon=self.epsilon,
            statement=f"One report is {self.epsilon:g}-LDP for the whole gradient: L1 clip to {self.radius:g}, "
            f"Laplace noise of scale {self.scale:g} on each of {self.dim} coordinates.",
        )

    @property
    def radius(self) -> float:
        """C/2, of the L1 ball."""
        return self.clip / 2

    def prepare(self, gradient: Array, public: Array) -> Array:
        """ḡ."""
        return clip_l1(gradient, self.radius)


@dataclass(frozen=True, kw_only=True)
class CoordinatewiseLaplace(AdditiveLaplace):
    """Each coordinate clipped to ±C/2 on its own, with noise as if the vector's sensitivity were that of one coordinate.

    The reading of the paper that comes closest to its results. **It is not ε-LDP.**

    **Guarantee.** d·ε-LDP for the gradient: the L1 diameter of the cube [−C/2, C/2]^d is d·C while the noise has scale C/ε.
    `guarantee.epsilon` is that d·ε; the ε in the formula is only nominal.
    """

    name = "laplace-coordinatewise"

    @property
    def guarantee(self) -> Guarantee:
        """d·ε, not ε."""
        true = self.dim * self.epsilon
        return Guarantee(
            epsilon=true,
            nominal_epsilon=self.epsilon,
            statement=f"NOT {self.epsilon:g}-LDP: each of {self.dim} coordinates is clipped on its own, so one report is "
            f"only {true:g}-LDP for the gradient.",
        )

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Every coordinate in [−C/2, C/2]."""
        return clip_elements(gradient, self.clip / 2)


def standard_laplace(words: Array, like: Array) -> Array:
    """Laplace(0, 1) from uniform 32-bit words: the low bit is the sign, the rest an exponential by inversion."""
    xp = words.__array_namespace__()
    uniform = (xp.astype(words >> 1, like.dtype) + 0.5) * 2.0**-31  # in (0, 1]
    magnitude = -xp.log(uniform)
    return xp.where(words & 1 == 1, magnitude, -magnitude)
