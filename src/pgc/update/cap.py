"""Keeps a policy from becoming deterministic under noise.

Its outputs at public states are scaled down if they are larger than a limit.
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
        """The distribution over actions that its outputs stand for."""

    def unflatten(self, theta: jax.Array) -> Any:
        """Returns θ (d, *batch) in the form that `apply` takes."""

    def apply(self, params: Any, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns outputs (outputs, *batch) and values (*batch), given (features, *batch)."""

    def scale_outputs(self, theta: jax.Array, factor: jax.Array) -> jax.Array:
        """Returns a θ (d,) whose policy has its outputs multiplied by a factor."""


@dataclass(frozen=True, kw_only=True)
class OutputCap:
    """Limits the root mean square of the contrasts of a policy's outputs, over public states.

    Noise makes θ walk at random and grow without end, and a policy that has become deterministic
    explores nothing and has no gradient. Only the policy's head is scaled, so greedy actions do not
    change. The cap is a function of θ and public values, hence post-processing, and costs no ε.
    """

    policy: Scaled
    bounds: Bounds
    most: float

    def apply(self, theta: jax.Array) -> jax.Array:
        """Returns θ (d,), with its policy head scaled down if the limit `most` is exceeded."""
        factor = jnp.minimum(1.0, self.most / jnp.maximum(self.size(theta), 1e-30))
        return self.policy.scale_outputs(theta, factor)

    def size(self, theta: jax.Array) -> jax.Array:
        """Returns the root mean square of the contrasts of the outputs at public states."""
        states, contrasts = (
            jnp.asarray(public_states(self.bounds)),
            jnp.asarray(self.policy.actions.contrasts),
        )
        outputs, _ = self.policy.apply(self.policy.unflatten(theta[:, None]), states)
        return jnp.sqrt(jnp.mean((contrasts @ outputs) ** 2))
