"""A compiled world as an environment of Gymnasium's kind, one step at a time: for devices that play in it as if it were real."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from pgc.worlds.base import World


class HostedWorld:
    """One home: the world with its own ψ."""

    def __init__(self, world: World, psi: Any, seed: int | None = None) -> None:
        self._world, self._psi = world, psi
        self._key = jax.random.key(np.random.default_rng(seed).integers(2**32) if seed is None else seed)
        self._reset, self._step = jax.jit(world.reset), jax.jit(world.step)
        self._observe = jax.jit(world.observe)
        self._state: Any = None
        self._steps = 0

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        """A new episode."""
        self._state, self._steps = self._reset(self._next(), self._psi), 0
        return np.asarray(self._observe(self._state)), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step."""
        moved = self._step(self._next(), self._state, np.asarray(action), self._psi)
        self._state, self._steps = moved.state, self._steps + 1
        ended = bool(moved.terminated)
        late = not ended and self._steps >= self._world.max_steps
        return np.asarray(self._observe(self._state)), float(moved.reward), ended, late, {}

    def _next(self) -> Any:
        self._key, now = jax.random.split(self._key)
        return now
