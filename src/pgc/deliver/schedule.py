"""α, the probability of a random action, as the aggregator schedules it. It travels in the offer."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp


def alpha(received: Any, start: float, decay: float) -> Any:
    """The paper's schedule: α = max(0, 0.5 − n/1800), n = submissions received when θ is copied.

    A float for a whole number `received`, an array for an array.
    """
    level = start - received / decay
    return max(0.0, level) if isinstance(level, float) else jnp.maximum(0.0, level)
