"""`none`: ε = ∞. The gradient is only clipped, as in the paper's non-private A3C."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pgc.randomise.mechanisms.base import Array, Guarantee, Mechanism
from pgc.randomise.mechanisms.clip import clip_l1


@dataclass(frozen=True, kw_only=True)
class NoPrivacy(Mechanism):
    """Clips in L1 to C/2 as the Laplace mechanism does, and adds no noise. With `clip` = inf,
    coordinates are only cut off at 1e30.

    **Guarantee.** None: the aggregator reads the clipped gradient. ε = ∞.
    """

    name = "none"
    largest_clip = math.inf
    default_clip, paper_clip = 2.0, 0.01
    epsilon: float = math.inf

    @classmethod
    def clip_in(cls, directions: int) -> float:
        """Returns √k for k directions, so that a report is equally long in any number of them.

        The L2 norm of a vector whose L1 norm is C/2 falls as 1/√k.
        """
        return math.sqrt(directions) if directions else cls.default_clip

    @property
    def guarantee(self) -> Guarantee:
        """Nothing is protected: ε = ∞."""
        return Guarantee(
            epsilon=math.inf,
            nominal_epsilon=math.inf,
            statement="No privacy: the aggregator sees each agent's clipped gradient.",
        )

    def error(self, norm: float = 1.0) -> float:
        """0: the report is the clipped gradient itself."""
        return 0.0

    @property
    def secret_words(self) -> int:
        """0: nothing is drawn at random."""
        return 0

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns ḡ, the gradient clipped in L1 to C/2."""
        return clip_l1(gradient, self.clip / 2)

    @classmethod
    def make(cls, *, dim: int, epsilon: float, clip: float, **options: Any) -> Mechanism:
        """Returns the mechanism, whatever ε is."""
        return cls(dim=dim, clip=clip)

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Returns ḡ as it is."""
        return thresholds

    def decode(self, code: Array, public: Array) -> Array:
        """Returns ḡ as it is."""
        return code
