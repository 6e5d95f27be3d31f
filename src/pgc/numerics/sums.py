"""Sums that are written out term by term."""

from __future__ import annotations

import jax


def sum_of_products(left: list[jax.Array], right: list[jax.Array]) -> jax.Array:
    """Returns Σ_i left_i · right_i, written out term by term.

    XLA's CPU backend then compiles it to one loop that is vectorised over the batch.
    """
    total = left[0] * right[0]
    for a, b in zip(left[1:], right[1:], strict=True):
        total = total + a * b
    return total
