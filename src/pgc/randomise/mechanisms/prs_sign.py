"""`prs-sign`: Projected Random Sign in its limit C → 0.

Each bit says on which side of a random hyperplane the gradient lies; the norm is not reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.mechanisms.base import Array, Mechanism
from pgc.randomise.mechanisms.forms import WireForm
from pgc.randomise.mechanisms.prs import ProjectedRandomSign
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.randomise.mechanisms.sphere import refuse_clip, scaled


def best_reduced_dim(epsilon: float, dim: int) -> int:
    """Returns d̂ = max{1, min{d, round(ε/2.18)}}: d̂·tanh²(ε/2d̂) is largest near ε/d̂ = 2.18."""
    return max(1, min(dim, round(epsilon / 2.18)))


@dataclass(frozen=True, kw_only=True)
class ProjectedSign(ProjectedRandomSign):
    """Sends sign(M g) as d̂ bits, by randomised response with ε/d̂ each; they are decoded as Mᵀ ũ,
    with ũ_i = ±√(π/2)/(d̂·tanh(ε/2d̂)).

    Unless a few coordinates of g dominate, ⟨M_i, g⟩/‖g‖ is nearly a normal number, whose mean
    absolute value is √(2/π), and this is an unbiased estimate of g/‖g‖. `clip` is not used.

    **Guarantee.** As for `prs`: ε-LDP for the whole gradient, in the integers that are compared.
    """

    name = "prs-sign"
    integers = True
    wire_number = 3
    clips = False
    paper_buffer = 1
    traced = {"lowest_threshold": np.uint32, "highest_threshold": np.uint32, "size": np.float32}
    clip: float = 1.0

    @classmethod
    def make(cls, *, dim: int, epsilon: float, clip: float, **options: Any) -> Mechanism:
        """Returns the mechanism with the given d̂, or with that of the least error."""
        return cls(
            dim=dim,
            epsilon=epsilon,
            reduced_dim=options.get("reduced_dim") or best_reduced_dim(epsilon, dim),
        )

    @classmethod
    def fitting_clip(cls, dim: int) -> float:
        """Returns 1: this mechanism has no clip."""
        return 1.0

    def error(self, norm: float = 1.0) -> float:
        """Returns (π·d/(2·tanh²(ε/2d̂)) − 1)/d̂, for a direction that is spread over many
        coordinates, times ‖g‖², as if the norm were known.
        """
        return norm**2 * (math.pi / 2 * self.dim / self.lean**2 - 1) / self.reduced_dim

    @cached_property
    def size(self) -> float:
        """The absolute value of ũ_i."""
        return math.sqrt(math.pi / 2) / (self.reduced_dim * self.lean)

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns one of three thresholds per bit: the highest, the lowest, or half of all words
        where the gradient is on neither side.
        """
        xp = gradient.__array_namespace__()
        side = self._projected(scaled(gradient), public)
        highest, lowest, half = (
            xp.asarray(t, dtype=xp.uint32)
            for t in (self.highest_threshold, self.lowest_threshold, WORD // 2)
        )
        return xp.where(side > 0, highest, xp.where(side < 0, lowest, half))

    def to_wire(self) -> WireForm:
        """Returns d̂ alone: a side has no clip."""
        assert self.wire_number is not None
        return WireForm(self.wire_number, size=self.reduced_dim)

    @classmethod
    def from_wire(cls, form: WireForm, *, dim: int, epsilon: float) -> Mechanism:
        """Returns the mechanism with this d̂."""
        refuse_clip(form)
        if form.flags:
            raise PgcError("flags are unknown")
        return super().from_wire(form, dim=dim, epsilon=epsilon)
