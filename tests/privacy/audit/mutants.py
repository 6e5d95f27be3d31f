"""Mechanisms that are wrong in ways in which real ones were. Each claims ε and leaks more."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgc.randomise.mechanisms.base import Guarantee
from pgc.randomise.mechanisms.clip import clip_elements, clip_l1, clip_l2
from pgc.randomise.mechanisms.duchi import Duchi
from pgc.randomise.mechanisms.index_code import IndexCode
from pgc.randomise.mechanisms.laplace import Laplace
from pgc.randomise.mechanisms.prs import ProjectedRandomSign
from pgc.randomise.mechanisms.randomized_response import WORD, keep_threshold


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

    integers = True

    @cached_property
    def highest_threshold(self):
        return keep_threshold(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ChosenAfter(ProjectedRandomSign):
    """The device takes the one of two projections that suits its gradient better, and says which."""

    integers = True

    @property
    def public_words(self):
        return 2 * self.reduced_dim * self.dim

    def prepare(self, gradient, public):
        xp = gradient.__array_namespace__()
        both = [
            super(ChosenAfter, self).prepare(gradient, half)
            for half in (public[: len(public) // 2], public[len(public) // 2 :])
        ]
        middle = xp.asarray(WORD // 2, dtype=xp.uint32)
        far = [
            xp.sum(xp.abs(xp.astype(b, xp.float32) - xp.astype(middle, xp.float32))) for b in both
        ]
        second = far[1] > far[0]
        chosen = xp.where(second, both[1], both[0])
        return xp.concat(
            [
                chosen,
                xp.where(
                    second,
                    xp.asarray([WORD - 1], dtype=xp.uint32),
                    xp.asarray([0], dtype=xp.uint32),
                ),
            ]
        )

    @property
    def secret_words(self):
        return self.reduced_dim + 1

    def event(self, words):
        return None  # that of its base does not fit; the search must find it


@dataclass(frozen=True, kw_only=True)
class VaryingSet(IndexCode):
    """S is all vectors nearer than a threshold: as many as there happen to be."""

    integers = True

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

    integers = True

    def draw(self, thresholds, secret):
        if thresholds[0] == WORD // 2:
            raise ValueError("nothing to report")
        return super().draw(thresholds, secret)


@dataclass(frozen=True, kw_only=True)
class FloatsAsIntegers(Laplace):
    """Says that it compares integers, and sends floating-point noise."""

    integers = True


@dataclass(frozen=True, kw_only=True)
class EachClipped(Laplace):
    """Each coordinate clipped to ±C/2: d·ε, and it says ε."""

    def prepare(self, gradient, public):
        return clip_elements(gradient, self.clip / 2)


@dataclass(frozen=True, kw_only=True)
class L2Clipped(Laplace):
    """Clipped in L2: √d·ε."""

    def prepare(self, gradient, public):
        return clip_l2(gradient, self.clip / 2)


@dataclass(frozen=True, kw_only=True)
class OneDraw(Laplace):
    """The same noise on every coordinate: their differences have none."""

    def draw(self, thresholds, secret):
        return super().draw(thresholds, secret * 0 + secret[0])


@dataclass(frozen=True, kw_only=True)
class HalfNoise(Laplace):
    """From the third coordinate on somebody forgot."""

    def draw(self, thresholds, secret):
        xp = thresholds.__array_namespace__()
        return xp.where(xp.arange(self.dim) < 2, super().draw(thresholds, secret), thresholds)


@dataclass(frozen=True, kw_only=True)
class TwoNumbers(Duchi):
    """Beside the bit, (2, 0) or (0, 1) by the sign of the first coordinate."""

    integers = True

    def prepare(self, gradient, public):
        xp = gradient.__array_namespace__()
        up = xp.astype(gradient[:1] > 0, xp.uint32)
        return xp.concat([super().prepare(gradient, public), up])

    def draw(self, thresholds, secret):
        xp = thresholds.__array_namespace__()
        bit = xp.astype(secret < thresholds[:1], xp.uint32)
        return xp.concat([2 * thresholds[1:], 1 - thresholds[1:], bit])

    def event(self, words):
        return None  # that of its base does not fit; the search must find it


@dataclass(frozen=True, kw_only=True)
class InfinityInTheClear(Duchi):
    """What is infinite is not randomised."""

    integers = True

    def prepare(self, gradient, public):
        if np.isinf(gradient).any():
            return np.array([0 if gradient[0] < 0 else WORD - 1], np.uint32)
        return super().prepare(gradient, public)


@dataclass(frozen=True, kw_only=True)
class LargeInTheClear(Duchi):
    """Nor is what is large, but not very large."""

    integers = True

    def prepare(self, gradient, public):
        xp = gradient.__array_namespace__()
        largest = xp.max(xp.abs(gradient))
        clear = xp.where(
            gradient[:1] > 0, xp.asarray(WORD - 1, dtype=xp.uint32), xp.asarray(0, dtype=xp.uint32)
        )
        return xp.where((largest > 100) & (largest < 1e6), clear, super().prepare(gradient, public))


@dataclass(frozen=True, kw_only=True)
class SharedNoise(Laplace):
    """The sixth coordinate has the noise of the first."""

    def draw(self, thresholds, secret):
        xp = thresholds.__array_namespace__()
        return super().draw(thresholds, xp.where(xp.arange(self.dim) == 5, secret[0], secret))


@dataclass(frozen=True, kw_only=True)
class RaisesOnNaN(ProjectedRandomSign):
    """What is not finite is an error."""

    integers = True

    def prepare(self, gradient, public):
        if not np.isfinite(gradient).all():
            raise FloatingPointError("not finite")
        return super().prepare(gradient, public)


@dataclass(frozen=True, kw_only=True)
class LongerForZero(Duchi):
    """One bit more where there is nothing to say."""

    integers = True

    def draw(self, thresholds, secret):
        bit = super().draw(thresholds, secret)
        return np.concatenate([bit, bit]) if thresholds[0] == WORD // 2 else bit


@dataclass(frozen=True, kw_only=True)
class Boaster(Duchi):
    """Promises a twentieth of the ε that it spends."""

    @property
    def guarantee(self):
        return Guarantee(
            epsilon=self.epsilon / 20, nominal_epsilon=self.epsilon, statement="little"
        )
