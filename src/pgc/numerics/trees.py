"""Helpers for JAX trees."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


def select(condition: jax.Array, yes: Tree, no: Tree) -> Tree:
    """`where` over two trees of the same shape."""
    chosen: Tree = jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
    return chosen
