"""Converts between θ-space and the coordinates z in a basis W of a public subspace.

Without a basis the two are the same.
"""

from __future__ import annotations

import jax


def project(basis: jax.Array | None, gradient: jax.Array) -> jax.Array:
    """Returns the coordinates that are reported: Wᵀ g, or g itself if there is no subspace."""
    return gradient if basis is None else basis.T @ gradient


def to_theta_space(basis: jax.Array | None, coordinates: jax.Array) -> jax.Array:
    """Returns the vector W z̃ of θ-space, or z̃ itself if there is no subspace."""
    return coordinates if basis is None else basis @ coordinates
