"""Solves small positive definite systems for every lane at once by Gauss–Jordan elimination.

It is written out here because LAPACK's routines can wait for each other for ever when two compiled
programs call them at once (JAX 0.9 to 0.11 on two cores), and because the same operations give the
same numbers on every machine.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Returns x (n, m, *batch) with matrix (n, n, *batch) · x = right (n, m, *batch)."""
    n = matrix.shape[0]
    which = jnp.arange(n).reshape(n, *[1] * (matrix.ndim - 1))

    def eliminate(i: jax.Array, rows: jax.Array) -> jax.Array:
        pivot = rows[i] / rows[i, i]
        return jnp.where(which == i, pivot, rows - rows[:, i][:, None] * pivot)

    rows: jax.Array = jax.lax.fori_loop(0, n, eliminate, jnp.concatenate([matrix, right], axis=1))
    return rows[:, n:]


def ridge_regression(gram: jax.Array, cross: jax.Array, ridge: jax.Array | float) -> jax.Array:
    """Returns β (n, *batch) = (gram + ridge·I)⁻¹ cross, with gram (n, n, *batch)."""
    n = gram.shape[0]
    return solve(gram + ridge * jnp.eye(n).reshape(n, n, *[1] * (gram.ndim - 2)), cross[:, None])[
        :, 0
    ]
