"""θ_0: what the first agents of a trial are handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp

from pgc.numerics import randomness
from pgc.numerics.randomness import Stream


class Initialised(Protocol):
    """A policy that can draw its first θ."""

    def init(self, key: jax.Array, how: str) -> jax.Array:
        """Draws θ_0, a vector of d numbers."""


@dataclass(frozen=True)
class Initial:
    """Where θ_0 comes from."""

    how: str
    """The way in which it is drawn (`TrainConfig.initial`)."""
    given: tuple[float, ...] | None = None
    """θ_0 itself, if all trials start with the same one."""


def initial_theta(seed: jax.Array, policy: Initialised, initial: Initial) -> jax.Array:
    """Returns θ_0 of the trial with this seed."""
    if initial.given is not None:
        return jnp.asarray(initial.given, jnp.float32)
    return policy.init(randomness.key(seed, Stream.THETA, 0, 0), initial.how)
