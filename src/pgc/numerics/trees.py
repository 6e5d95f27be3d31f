"""Helpers for JAX trees."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


def select(condition: jax.Array, yes: Tree, no: Tree) -> Tree:
    """Returns `jnp.where(condition, yes, no)` for each leaf of two trees of the same structure."""
    chosen: Tree = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen
