"""The noisy boolean of the paper: whether an agent's score reached Θ, by randomised response."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.mechanisms.base import Array
from pgc.randomise.mechanisms.randomized_response import WORD, keep_threshold


@dataclass(frozen=True, kw_only=True)
class ScoreBit:
    """Randomised response (Warner 1965): the truth is kept with probability e^ε/(e^ε + 1), else
    inverted.

    **Guarantee.** ε-LDP for the score, against anyone who sees the bit. Its ε adds to that of the
    gradient in the same report (sequential composition). The probability is ⌊2³²·e^ε/(e^ε+1)⌋/2³²,
    never more than the formula's.
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Requires a finite, positive ε: only that is a promise."""
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise PgcError(
                "score_epsilon must be a positive finite number (0 for no score bit), not "
                f"{self.epsilon:g}"
            )

    @property
    def keep_threshold(self) -> int:
        """How many of 2³² words keep the truth."""
        return keep_threshold(self.epsilon)

    def draw(self, success: Array, secret: Array) -> Array:
        """Draws the bit that is sent, from one secret word."""
        return success == (secret < np.uint32(self.keep_threshold))

    def success_rate(self, ones: Array, reports: float) -> Array:
        """Returns an unbiased estimate of the share of successes, from `reports` bits of which
        `ones` are set.

        It may lie outside [0, 1].
        """
        keep = self.keep_threshold / WORD
        return (ones / reports - (1 - keep)) / (2 * keep - 1)

    def surely_above(self, ones: Array, reports: float, rate: float) -> Array:
        """Whether noisy booleans show, at two standard deviations, that more than this share of
        `reports` succeeded.
        """
        return self.success_rate(ones, reports) - 2 * self.deviation(reports) > rate

    def deviation(self, reports: float) -> float:
        """The largest standard deviation that `success_rate` can have: 1/(2·√n·tanh(ε/2))."""
        return 1 / (2 * math.sqrt(reports) * math.tanh(self.epsilon / 2))
