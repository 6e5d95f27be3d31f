"""α, the probability of a random action.

The aggregator schedules it, and it travels in the offer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp


@dataclass(frozen=True)
class Schedule:
    """The schedule α = max(0, start − n/decay), by default with the numbers of the paper.

    n is the number of submissions that were received before θ is handed out.
    """

    start: float = 0.5
    decay: float = 1800.0

    def alpha(self, received: Any) -> Any:
        """Returns α after `received` submissions: a float for a number, an array for an array."""
        level = self.start - received / self.decay
        return max(0.0, level) if isinstance(level, float) else jnp.maximum(0.0, level)
