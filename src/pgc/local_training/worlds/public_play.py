"""Finds the scales of observations by play in the default environment, before there is any agent.

This costs no ε, and does not depend on any agent's ψ.

What matters about the scale of a number is how much it varies *in good play*. The limits of an
environment's space do not tell (LunarLander's velocities have limits of ±10 and values of ±1), and
nor do random actions (a cart whose pole falls at once never leaves the middle). So a small search
learns to play: the cross-entropy method over linear policies (Rubinstein 1999; Mannor, Rubinstein
and Gat 2003). In each round it plays some policies, keeps the best, and measures their
observations, which are the scales of the next round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from pgc.spaces import Actions, Categorical

PUBLIC_STEPS = 40_000
"""Steps of play from which scales are found, unless another number is given."""
RANDOM_STEPS = 1000
"""Steps with random actions, for the first scales."""
CANDIDATES, BEST = 40, 8
"""Policies that are played in a round, and how many of them are kept."""
LEAST_SPREAD = 0.1
"""The search goes on varying every weight by at least this much."""
NARROWEST = 0.05
"""In one round, no scale becomes smaller than this times what it was."""


class Playable(Protocol):
    """The usual environment, as public play needs it."""

    def reset(self, seed: int) -> np.ndarray:
        """Begins an episode, and returns its first observation."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool]:
        """Takes one step; returns observation, reward, and whether the episode ended."""


class Scales(NamedTuple):
    """The mean and the standard deviation of each number of an observation."""

    mean: np.ndarray
    deviation: np.ndarray


def public_scales(environment: Playable, actions: Actions, steps: int) -> Scales:
    """Returns the scales of observations in good play, found in about so many steps.

    The same environment gives the same scales: the search has a seed of its own.
    """
    search = _Search(environment, actions)
    rows = [search.play(None)[0]]
    while search.steps < min(RANDOM_STEPS, steps):
        rows.append(search.play(None)[0])
    search.scales = _measured(rows)
    while search.steps < steps:
        search.round(steps)
    return search.scales


class _Search:
    """The cross-entropy method; what it knows after each round."""

    def __init__(self, environment: Playable, actions: Actions) -> None:
        self.steps = 0
        self._environment, self._actions = environment, actions
        self._rng = np.random.default_rng(0)
        self._back = np.linalg.pinv(np.asarray(actions.contrasts, float))
        self.scales = Scales(np.zeros(0), np.ones(0))
        self._mean: np.ndarray | None = None
        self._spread: np.ndarray | None = None

    def play(self, weights: np.ndarray | None) -> tuple[np.ndarray, float]:
        """Plays one episode, with random actions if there is no policy; returns its observations
        (steps, n) and its return.
        """
        act = self._random if weights is None else self._greedy(weights)
        seen = self._environment.reset(int(self._rng.integers(2**31)))
        rows, score, ended = [seen], 0.0, False
        while not ended:
            seen, reward, ended = self._environment.step(act(seen))
            rows.append(seen)
            score += reward
            self.steps += 1
        return np.asarray(rows, float), score

    def round(self, most: int) -> None:
        """Plays some policies around the best of the last round, and measures the best of them.

        A round that would take more than `most` steps in all is left out.
        """
        shape = (len(self._back.T), 1 + len(self.scales.mean))
        mean = np.zeros(shape) if self._mean is None else self._mean
        spread = np.ones(shape) if self._spread is None else self._spread
        tried = []
        for _ in range(CANDIDATES):
            weights = mean + spread * self._rng.standard_normal(shape)
            tried.append((weights, *self.play(weights)))
            if self.steps >= most:
                return
        best = sorted(tried, key=lambda one: -one[2])[:BEST]
        found = np.array([weights for weights, _, _ in best])
        now = _measured([rows for _, rows, _ in best])
        now = now._replace(deviation=np.maximum(now.deviation, NARROWEST * self.scales.deviation))
        # the same policies, as functions of observations in the new scales
        ratio = now.deviation / self.scales.deviation
        shift = (now.mean - self.scales.mean) / self.scales.deviation
        mean, spread = found.mean(axis=0), found.std(axis=0)
        mean = np.concatenate([mean[:, :1] + mean[:, 1:] @ shift[:, None], mean[:, 1:] * ratio], 1)
        spread = np.concatenate([spread[:, :1], spread[:, 1:] * ratio], 1)
        self._mean, self._spread = mean, np.maximum(spread, LEAST_SPREAD)
        self.scales = now

    def _greedy(self, weights: np.ndarray) -> Callable[[np.ndarray], Any]:
        outputs = self._back @ weights
        discrete = isinstance(self._actions, Categorical)
        if not isinstance(self._actions, Categorical):
            low, high = np.array(self._actions.low), np.array(self._actions.high)

        def act(seen: np.ndarray) -> Any:
            x = (seen - self.scales.mean) / self.scales.deviation
            made = outputs @ np.concatenate([[1.0], x])
            if discrete:
                return int(np.argmax(made))
            return np.clip((low + high) / 2 + (high - low) / 2 * made, low, high)

        return act

    def _random(self, seen: np.ndarray) -> Any:
        if isinstance(self._actions, Categorical):
            return int(self._rng.integers(self._actions.count))
        return self._rng.uniform(self._actions.low, self._actions.high)


def _measured(rows: list[np.ndarray]) -> Scales:
    seen = np.concatenate(rows)
    return Scales(seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-12))
