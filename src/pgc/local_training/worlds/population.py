"""A Population: the distribution over ψ from which each agent's private dynamics are drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from pgc.errors import PgcError
from pgc.local_training.worlds.base import Psi, World

GRID_POINTS = 3
"""A continuous range is evaluated at this many evenly spaced values."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One field of ψ, drawn uniformly from listed `values`, or from the range between
    two of them.
    """

    field: str
    values: tuple[float, ...]
    continuous: bool = False

    def at(self, uniform: jax.Array) -> jax.Array:
        """Returns the value that one uniform number in [0, 1) selects."""
        if self.continuous:
            low, high = self.values
            return low + (high - low) * uniform
        return jnp.asarray(self.values)[(uniform * len(self.values)).astype(int)]

    def pick(self, uniform: float) -> float:
        """Returns the same value as `at`, as a plain float."""
        if self.continuous:
            low, high = self.values
            return low + (high - low) * uniform
        return self.values[int(uniform * len(self.values))]

    def grid(self) -> tuple[float, ...]:
        """Returns the values at which a policy is evaluated."""
        if not self.continuous:
            return self.values
        low, high = self.values
        return tuple(low + (high - low) * i / (GRID_POINTS - 1) for i in range(GRID_POINTS))

    def contains(self, value: float) -> bool:
        """Whether an agent could have this value."""
        return (
            min(self.values) <= value <= max(self.values)
            if self.continuous
            else value in self.values
        )


@dataclass(frozen=True, kw_only=True)
class Population:
    """The distribution of ψ: a base value in which some fields vary independently.

    In the paper, gravity is uniform on {9.7, 9.8, 9.9}.
    """

    base: Any
    variations: tuple[Variation, ...]

    @classmethod
    def parse(cls, world: World, texts: Sequence[str]) -> Population:
        """Reads texts of the form `field=v1,v2,…` (uniform on these values) or `field=low:high`
        (uniform on the range), one for each field that varies.
        """
        variations = tuple(_parse_variation(world, text) for text in texts)
        fields = [v.field for v in variations]
        if len(set(fields)) < len(fields):
            raise PgcError(
                f"population names a field of ψ twice: {' '.join(texts)}; give each field once"
            )
        return cls(base=world.default_psi, variations=variations)

    def draw(self, key: jax.Array) -> Psi:
        """Draws the ψ_n of one agent."""
        uniforms = jax.random.uniform(key, (len(self.variations),))
        drawn = {v.field: v.at(u) for v, u in zip(self.variations, uniforms, strict=True)}
        return jax.tree.map(jnp.asarray, self.base._replace(**drawn))

    def pick(self, uniforms: Iterable[float]) -> Psi:
        """Returns the ψ of one agent in plain floats, from one uniform number per variation."""
        drawn = {v.field: v.pick(float(u)) for v, u in zip(self.variations, uniforms, strict=True)}
        return self.base._replace(**drawn)

    def grid(self) -> list[Psi]:
        """Returns every ψ at which a policy is evaluated: the whole support when it is finite."""
        axes = [v.grid() for v in self.variations]
        names = [v.field for v in self.variations]
        return [
            self.base._replace(**dict(zip(names, point, strict=True)))
            for point in itertools.product(*axes)
        ]

    def contains(self, psi: Psi) -> bool:
        """Whether an agent could have this ψ."""
        varied = {v.field: v for v in self.variations}
        return all(
            varied[f].contains(getattr(psi, f))
            if f in varied
            else getattr(psi, f) == getattr(self.base, f)
            for f in psi._fields
        )


def _parse_variation(world: World, text: str) -> Variation:
    field, equals, listed = text.partition("=")
    if field not in world.default_psi._fields or not equals:
        raise PgcError(
            f"'{text}' is not a variation of {world.name}; write FIELD=v1,v2,… or FIELD=low:high "
            "with FIELD one of "
            f"{', '.join(world.default_psi._fields)}"
        )
    continuous = ":" in listed
    try:
        values = tuple(float(v) for v in listed.split(":" if continuous else ","))
    except ValueError:
        raise PgcError(
            f"'{text}': the values of {field} must be numbers, as in {field}=1,2,3 or {field}=1:3"
        ) from None
    if not all(map(math.isfinite, values)) or (
        continuous and (len(values) != 2 or values[0] >= values[1])
    ):
        raise PgcError(
            f"'{text}': the values of {field} must be finite, and a range low:high must have low < "
            "high"
        )
    if field in world.positive and min(values) <= 0:
        raise PgcError(f"'{text}': {field} must be greater than 0")
    return Variation(field=field, values=values, continuous=continuous)
