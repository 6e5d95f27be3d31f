"""Clipping, which bounds the sensitivity; the noise is added elsewhere.

Local privacy compares *any two* inputs, so the sensitivity of a clipped gradient is the diameter of
the set it is clipped to: an L1 ball of radius C/2 has diameter C. Each function states that
diameter; mechanisms derive their scale from it.
"""

from __future__ import annotations

from pgc.randomise.mechanisms.base import Array

HUGE = 1e30
"""Coordinates beyond this are cut, so that sums of them stay finite in float32."""


def sanitize(vector: Array) -> Array:
    """Returns the vector, or zeros if any coordinate is NaN or infinite: an error that reached the
    aggregator would be a leak.
    """
    xp = vector.__array_namespace__()
    return xp.where(xp.all(xp.isfinite(vector)), vector, xp.zeros_like(vector))


def clip_l1(vector: Array, radius: float) -> Array:
    """Returns ḡ = g / max{1, ‖g‖₁/radius}, eq. (clip) of the paper with radius = C/2.

    L1 diameter of the result: 2·radius.
    """
    xp = vector.__array_namespace__()
    vector = clip_elements(vector, HUGE)
    return vector / xp.maximum(xp.sum(xp.abs(vector)) / radius, 1.0)


def clip_l2(vector: Array, radius: float) -> Array:
    """Returns ḡ = g / max{1, ‖g‖₂/radius}.

    L2 diameter of the result: 2·radius; L1 diameter: 2·radius·√d.
    """
    xp = vector.__array_namespace__()
    vector = clip_elements(vector, HUGE)
    # squares of large numbers would overflow
    largest = xp.maximum(xp.max(xp.abs(vector)), xp.asarray(1e-30, dtype=vector.dtype))
    norm = largest * xp.sqrt(xp.sum((vector / largest) ** 2))
    return vector / xp.maximum(norm / radius, 1.0)


def clip_elements(vector: Array, bound: float) -> Array:
    """Returns the vector with each coordinate clipped to [−bound, bound].

    L∞ diameter of the result: 2·bound; L1 diameter: 2·bound·d.
    """
    xp = vector.__array_namespace__()
    return xp.clip(sanitize(vector), -bound, bound)
