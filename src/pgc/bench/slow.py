"""An environment whose step takes a millisecond, as a physics simulator's does: `--world
pgc.bench.slow:Slow`.
"""

from __future__ import annotations

import time
from typing import Any

from gymnasium.envs.classic_control import CartPoleEnv

STEP_SECONDS = 1e-3


class Slow(CartPoleEnv):  # type: ignore[misc]
    """Gymnasium's CartPole, whose step takes a millisecond more."""

    def step(self, action: Any) -> Any:
        """Sleeps for a millisecond, and then takes a step."""
        time.sleep(STEP_SECONDS)
        return super().step(action)
