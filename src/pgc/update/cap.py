"""Keep a policy from becoming certain under noise: its outputs at public states are scaled down to
a largest size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from pgc.numerics.public_states import public_states
from pgc.spaces import Actions, Bounds


class Scaled(Protocol):
    """A policy over one flat θ whose outputs can be scaled without changing its greedy actions."""

    @property
    def actions(self) -> Actions:
        """What its outputs mean."""

    def unflatten(self, theta: jax.Array) -> Any:
        """θ (d, *batch) as `apply` wants it."""

    def apply(self, params: Any, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Outputs (outputs, *batch) and values (*batch) at observations (features, *batch)."""

    def scale_outputs(self, theta: jax.Array, factor: jax.Array) -> jax.Array:
        """θ (d,) whose outputs are multiplied by a factor."""


@dataclass(frozen=True, kw_only=True)
class OutputCap:
    """The root mean square of what matters of the outputs, over public states, is at most `most`.

    A random walk in θ grows without end, and a policy that is certain explores nothing and has no
    gradient. Only its head is scaled, so greedy actions do not change. A function of θ and public
    values: post-processing.
    """

    policy: Scaled
    bounds: Bounds
    most: float

    def apply(self, theta: jax.Array) -> jax.Array:
        """θ (d,), its policy head scaled down if need be."""
        states, contrasts = (
            jnp.asarray(public_states(self.bounds)),
            jnp.asarray(self.policy.actions.contrasts),
        )
        outputs, _ = self.policy.apply(self.policy.unflatten(theta[:, None]), states)
        size = jnp.sqrt(jnp.mean((contrasts @ outputs) ** 2))
        return self.policy.scale_outputs(
            theta, jnp.minimum(1.0, self.most / jnp.maximum(size, 1e-30))
        )
