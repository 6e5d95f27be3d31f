"""What an agent on the host needs of a policy, and how a policy in JAX provides it.

The built-in network does so in NumPy (`numpy_network.py`), a PyTorch module in `torch_module.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from pgc.local_training.numpy_episodes import LanePolicy
from pgc.local_training.numpy_estimator import GradientPolicy
from pgc.local_training.numpy_network import Passed
from pgc.local_training.policies.own import OwnPolicy

WIDTH = 64
"""Compiled calls are padded to a multiple of this many rows, so that a row does not depend on how
many others there are."""


class HostPolicy(LanePolicy, GradientPolicy, Protocol):
    """A policy over one flat θ, in NumPy arrays, that acts in lanes and can be differentiated."""


@dataclass(frozen=True, eq=False)
class JaxOnHost:
    """A policy in JAX that takes and returns NumPy arrays."""

    policy: OwnPolicy

    def forward(self, theta: np.ndarray, observations: np.ndarray) -> Passed:
        """Returns outputs and values at observations, one row for each."""
        outputs, values = [], []
        for some in _pieces(observations):
            made = self._same(jnp.asarray(theta, jnp.float32), some)
            outputs.append(np.asarray(made[0], float))
            values.append(np.asarray(made[1], float))
        n = len(observations)
        return Passed([observations], np.concatenate(outputs)[:n], np.concatenate(values)[:n])

    def backward(
        self, theta: np.ndarray, passed: Passed, to_outputs: np.ndarray, to_values: np.ndarray
    ) -> np.ndarray:
        """Returns the gradient (d,) of a sum over steps."""
        total, flat = np.zeros(len(theta)), jnp.asarray(theta, jnp.float32)
        for some in zip(
            *(_pieces(part) for part in (passed.inputs[0], to_outputs, to_values)), strict=True
        ):
            total += np.asarray(self._pull(flat, *some), float)
        return total

    def stack(self, thetas: list[np.ndarray]) -> np.ndarray:
        """Returns several θ in the form that `each` takes."""
        return np.stack(thetas).astype(np.float32)

    def put(self, stack: np.ndarray, row: int, theta: np.ndarray) -> None:
        """Puts another θ into a row."""
        stack[row] = theta

    def keep(self, stack: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns the stack with these rows only."""
        kept: np.ndarray = stack[rows]
        return kept

    def each(self, stack: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """Returns the outputs of each θ at its own observation."""
        width = WIDTH if len(stack) <= WIDTH else -(-len(stack) // WIDTH) * WIDTH
        made = self._each(_padded(stack, width), _padded(observations, width))
        return np.asarray(made, float)[: len(stack)]

    @cached_property
    def _same(self) -> Any:
        return jax.jit(jax.vmap(self.policy._one, (None, 0)))

    @cached_property
    def _each(self) -> Any:
        return jax.jit(jax.vmap(lambda theta, observation: self.policy._one(theta, observation)[0]))

    @cached_property
    def _pull(self) -> Any:
        def total(
            theta: jax.Array, observations: jax.Array, to_outputs: jax.Array, to_values: jax.Array
        ) -> jax.Array:
            outputs, values = jax.vmap(self.policy._one, (None, 0))(theta, observations)
            return jnp.sum(outputs * to_outputs) + jnp.sum(values * to_values)

        return jax.jit(jax.grad(total))


def _pieces(rows: np.ndarray) -> list[np.ndarray]:
    """Returns pieces of WIDTH rows, the last one padded with zeros: all compile to one program."""
    return [_padded(rows[at : at + WIDTH], WIDTH) for at in range(0, len(rows), WIDTH)]


def _padded(rows: np.ndarray, width: int) -> np.ndarray:
    return np.concatenate(
        [rows, np.zeros((width - len(rows), *rows.shape[1:]), rows.dtype)]
    ).astype(np.float32)
