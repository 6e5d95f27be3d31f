"""Between θ-space and the coordinates z in a basis W of a public subspace; without a basis they are
the same.
"""

from __future__ import annotations

import jax


def project(basis: jax.Array | None, gradient: jax.Array) -> jax.Array:
    """The coordinates that are reported: Wᵀ g, or g itself where there is no subspace."""
    return gradient if basis is None else basis.T @ gradient


def lift(basis: jax.Array | None, coordinates: jax.Array) -> jax.Array:
    """Back to θ-space: W z̃."""
    return coordinates if basis is None else basis @ coordinates
