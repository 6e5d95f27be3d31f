"""`duchi`: sends one bit for a direction.

It says on which side of a random public hyperplane the gradient lies, by randomised response.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgc.randomise.mechanisms.base import Array
from pgc.randomise.mechanisms.forms import Event
from pgc.randomise.mechanisms.randomized_response import WORD, keep_threshold
from pgc.randomise.mechanisms.sphere import (
    Moments,
    OnSphere,
    mean_abs_coordinate,
    normal_words,
    scaled,
    uniform_direction,
)


@dataclass(frozen=True, kw_only=True)
class Duchi(OnSphere):
    """Sends the sign of ⟨Z, g⟩, kept with probability e^ε/(e^ε + 1), for a public Z that is uniform
    on the sphere; it is decoded as ±Z/m.

    This is the L2 mechanism of Duchi, Jordan and Wainwright (2018) in its sign-of-projection form:
    m = E|U₁|·tanh(ε/2).

    **Guarantee.** ε-LDP for the whole gradient, against anyone who sees the report, for any Z
    independent of the gradient: the report is one bit, and each of its values has a probability in
    [1/(e^ε+1), e^ε/(e^ε+1)] whatever the gradient is. It holds for the integers that are compared:
    a sign is kept when a uniform 32-bit word is below ⌊2³²·e^ε/(e^ε+1)⌋, rounded down.
    """

    name = "duchi"
    one_length = True
    integers = True
    wire_number = 4
    lifts = True
    smallest_dim = 1
    traced = {"keep": np.uint32, "flip": np.uint32, "size": np.float32}

    @property
    def how(self) -> str:
        """Says what is sent, in words."""
        return "one bit, the side of a public random hyperplane, by randomised response"

    @cached_property
    def keep(self) -> int:
        """How many of 2³² words keep the sign."""
        return keep_threshold(self.epsilon)

    @cached_property
    def flip(self) -> int:
        """How many of 2³² words flip the sign."""
        return WORD - self.keep

    @property
    def moments(self) -> Moments:
        """The moments of V = ±Z, which is uniform except for its side.

        They use the probability that is really used, in place of e^ε/(e^ε+1).
        """
        mean = mean_abs_coordinate(self.dim) * (self.keep - self.flip) / WORD
        return Moments(mean, 1 / self.dim, 1 / self.dim)

    @cached_property
    def size(self) -> float:
        """1/m, the length of a decoded report."""
        return 1 / self.moments.mean

    @property
    def report_bytes(self) -> int:
        """One byte, of which a bit is used."""
        return 1

    @property
    def secret_words(self) -> int:
        """One word decides the bit."""
        return 1

    @property
    def public_words(self) -> int:
        """The number of words from which Z is made."""
        return normal_words(self.dim)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns how many of 2³² words set the bit: `keep`, or `flip`, or half of them where the
        gradient is on neither side.
        """
        xp = gradient.__array_namespace__()
        side = xp.sum(uniform_direction(public, self.dim, gradient.dtype) * scaled(gradient))
        keep, flip, half = (
            xp.asarray(t, dtype=xp.uint32) for t in (self.keep, self.flip, WORD // 2)
        )
        return xp.where(side > 0, keep, xp.where(side < 0, flip, half))[None]

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws one bit: the side, or its opposite."""
        return secret < thresholds

    def decode(self, code: Array, public: Array) -> Array:
        """Returns ±Z/m, an unbiased estimate of the direction."""
        xp = public.__array_namespace__()
        return xp.where(code, self.size, -self.size) * uniform_direction(
            public, self.dim, xp.float32
        )

    @property
    def code_bits(self) -> int:
        """A code is one bit."""
        return 1

    def opposite(
        self, gradient: np.ndarray, words: Callable[[int], np.ndarray], prepare: Callable[..., Any]
    ) -> Event | None:
        """Returns the event that the bit tells the gradient's side."""
        side = bool(np.asarray(prepare(gradient, words(0)))[0] == self.keep)
        return Event(0, gradient, -gradient, lambda codes: codes[:, 0] == side, self.keep / WORD)
