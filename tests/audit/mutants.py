"""Mechanisms that are wrong in ways in which real ones were. Each claims ε and leaks more."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgc.audit.events import strongest
from pgc.mechanisms import Duchi, IndexCode, Laplace, ProjectedRandomSign
from pgc.mechanisms.clip import clip_l1
from pgc.mechanisms.randomized_response import WORD, keep_threshold


@dataclass(frozen=True, kw_only=True)
class SmallScale(Laplace):
    """The noise is 1.2 times too small."""

    @cached_property
    def scale(self):
        return self.clip / self.epsilon / 1.2


@dataclass(frozen=True, kw_only=True)
class WrongNeighbours(Laplace):
    """Noise for adding or removing one agent, clip to C: any two gradients are 2C apart, and this is 2ε."""

    def prepare(self, gradient, public):
        return clip_l1(gradient, self.clip)


@dataclass(frozen=True, kw_only=True)
class WholeEpsilonEach(ProjectedRandomSign):
    """ε for each bit in place of ε/d̂."""

    @cached_property
    def highest_threshold(self):
        return keep_threshold(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ChosenAfter(ProjectedRandomSign):
    """The device takes the one of two projections that suits its gradient better, and says which."""

    @property
    def public_words(self):
        return 2 * self.reduced_dim * self.dim

    def prepare(self, gradient, public):
        xp = gradient.__array_namespace__()
        both = [
            super(ChosenAfter, self).prepare(gradient, half) for half in (public[: len(public) // 2], public[len(public) // 2 :])
        ]
        middle = xp.asarray(WORD // 2, dtype=xp.uint32)
        far = [xp.sum(xp.abs(xp.astype(b, xp.float32) - xp.astype(middle, xp.float32))) for b in both]
        second = far[1] > far[0]
        chosen = xp.where(second, both[1], both[0])
        return xp.concat([chosen, xp.where(second, xp.asarray([WORD - 1], dtype=xp.uint32), xp.asarray([0], dtype=xp.uint32))])

    @property
    def secret_words(self):
        return self.reduced_dim + 1


strongest.register(ChosenAfter, lambda mechanism: None)  # that of `prs` does not fit; the search must find it


@dataclass(frozen=True, kw_only=True)
class VaryingSet(IndexCode):
    """S is all vectors nearer than a threshold: as many as there happen to be."""

    def prepare(self, gradient, public):
        xp = gradient.__array_namespace__()
        z = self.code(public)
        u = xp.astype(gradient / xp.sqrt(xp.sum(gradient**2)), xp.float32)
        return xp.matmul(z, u) / xp.sqrt(xp.vecdot(z, z)) > 0.15

    def draw(self, thresholds, secret):
        xp = thresholds.__array_namespace__()
        weight = xp.where(thresholds, np.exp(self.epsilon), 1.0)
        place = (xp.astype(secret[0], weight.dtype) + 0.5) * 2.0**-32 * xp.sum(weight)
        return xp.argmax(xp.cumulative_sum(weight) > place)


@dataclass(frozen=True, kw_only=True)
class SkipsZero(Duchi):
    """A zero gradient is not worth a report."""

    def draw(self, thresholds, secret):
        if thresholds[0] == WORD // 2:
            raise ValueError("nothing to report")
        return super().draw(thresholds, secret)


@dataclass(frozen=True, kw_only=True)
class FloatsAsIntegers(Laplace):
    """Says that it compares integers, and sends floating-point noise."""

    integers = True
