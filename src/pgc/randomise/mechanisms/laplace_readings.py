"""Other readings of the paper's Laplace mechanism: other clips, the same noise Lap(C/ε). **None of
them is ε-LDP.**

They exist because the paper's results look like one of them. Each states the ε that truly holds for
the gradient and says in every output that it is not the nominal one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgc.randomise.mechanisms.base import Array
from pgc.randomise.mechanisms.clip import clip_elements, clip_l2
from pgc.randomise.mechanisms.laplace import AdditiveLaplace


@dataclass(frozen=True, kw_only=True)
class CoordinatewiseLaplace(AdditiveLaplace):
    """Clips each coordinate to ±C/2 on its own: the reading of the paper that comes closest to its
    results.

    **Guarantee.** d·ε-LDP, not ε: the L1 diameter of the cube [−C/2, C/2]^d is d·C.
    """

    name = "laplace-coordinatewise"

    @property
    def spread(self) -> float:
        """The sides of the cube add up to d·C."""
        return float(self.dim)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns the gradient with every coordinate clipped to [−C/2, C/2]."""
        return clip_elements(gradient, self.clip / 2)


@dataclass(frozen=True, kw_only=True)
class WideCoordinatewiseLaplace(AdditiveLaplace):
    """Clips each coordinate to ±C on its own.

    **Guarantee.** 2·d·ε-LDP, not ε: the L1 diameter of the cube [−C, C]^d is 2·d·C.
    """

    name = "laplace-coordinatewise-wide"

    @property
    def spread(self) -> float:
        """The sides of the cube add up to 2·d·C."""
        return 2.0 * self.dim

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns the gradient with every coordinate clipped to [−C, C]."""
        return clip_elements(gradient, self.clip)


@dataclass(frozen=True, kw_only=True)
class EuclideanLaplace(AdditiveLaplace):
    """Clips the gradient in L2 to C/2, as is usual with Gaussian noise.

    **Guarantee.** √d·ε-LDP, not ε: the L1 diameter of an L2 ball of radius C/2 is √d·C.
    """

    name = "laplace-l2"

    @property
    def spread(self) -> float:
        """‖x‖₁ ≤ √d·‖x‖₂, attained on the diagonal."""
        return float(self.dim**0.5)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns the gradient clipped to the L2 ball of radius C/2."""
        return clip_l2(gradient, self.clip / 2)
