"""θ_0: what the first agents of a trial are handed."""

from __future__ import annotations

from typing import Protocol

import jax

from pgc.numerics import randomness
from pgc.numerics.randomness import Stream


class Initialised(Protocol):
    """A policy that can draw its first θ."""

    def init(self, key: jax.Array, how: str) -> jax.Array:
        """Draws θ_0, a vector of d numbers."""


def initial_theta(seed: jax.Array, policy: Initialised, how: str) -> jax.Array:
    """Draws θ_0 of the trial with this seed."""
    return policy.init(randomness.key(seed, Stream.THETA, 0, 0), how)
