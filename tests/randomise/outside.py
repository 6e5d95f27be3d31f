"""A mechanism from outside the package, in one file: the sign of one public random coordinate, by randomised response."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pgc.mechanisms import Guarantee, Mechanism, register
from pgc.mechanisms.clip import sanitize
from pgc.mechanisms.randomized_response import WORD, keep_threshold


@register
@dataclass(frozen=True, kw_only=True)
class CoordinateSign(Mechanism):
    """**Guarantee.** ε-LDP: the report is one bit, each value of which has a probability in [1/(e^ε+1), e^ε/(e^ε+1)]."""

    name = "coordinate-sign"
    wire_number = 200
    integers = True
    clips = False
    traced = {"keep": np.uint32, "size": np.float32}
    secret_words, public_words, report_bytes, code_bits = 1, 1, 1, 1

    @property
    def guarantee(self):
        return Guarantee(
            epsilon=self.epsilon,
            nominal_epsilon=self.epsilon,
            statement=f"One bit, {self.epsilon:g}-LDP.",
        )

    @cached_property
    def keep(self):
        return keep_threshold(self.epsilon)

    @cached_property
    def size(self):
        return self.dim / (2 * self.keep / WORD - 1)

    def prepare(self, gradient, public):
        xp = gradient.__array_namespace__()
        x = sanitize(gradient)[public[0] % self.dim]
        keep, half = xp.asarray(self.keep, dtype=xp.uint32), xp.asarray(WORD // 2, dtype=xp.uint32)
        return xp.where(x > 0, keep, xp.where(x < 0, xp.asarray(0, dtype=xp.uint32) - keep, half))[
            None
        ]

    def draw(self, thresholds, secret):
        return secret < thresholds

    def decode(self, code, public):
        xp = public.__array_namespace__()
        return xp.where(
            xp.arange(self.dim) == public[0] % self.dim,
            xp.where(code[0], self.size, -self.size),
            0.0,
        )
