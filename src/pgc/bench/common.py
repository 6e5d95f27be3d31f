"""What the plain loops share: settings, the environment, the mechanism in NumPy, and the
asynchronous loop itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgc.errors import require

Episode = Callable[[Any, int], tuple[np.ndarray, int]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The paper's hyper-parameters, for loops that share no code with pgc."""

    mechanism: str
    epsilon: float = 1.0
    clip: float
    buffer_size: int
    workers: int = 9
    learning_rate: float = 0.5
    discount: float = 0.99
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    seed: int = 0
    seconds: float = math.inf
    submissions: float = math.inf
    """A loop ends after `seconds` or after this many submissions, whichever comes first."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a loop.

    It holds the seconds that it took, the score of every submission in order of arrival, and the
    difference between the last θ and the first.
    """

    seconds: float
    scores: list[int]
    moved: Any

    @property
    def submissions(self) -> int:
        """How many reports have arrived."""
        return len(self.scores)

    @property
    def steps(self) -> int:
        """Environment steps of reports that arrived: in CartPole an episode's score is
        its length.
        """
        return sum(self.scores)


def make_environment() -> Any:
    """Makes Gymnasium's CartPole with the paper's limit of 200 steps.

    The wrappers that check an environment are left out, because they only cost time.
    """
    gymnasium = require("gymnasium", "bench")
    return gymnasium.make("CartPole-v1", max_episode_steps=200, disable_env_checker=True)


def randomize(gradient: np.ndarray, settings: Settings, rng: np.random.Generator) -> np.ndarray:
    """Randomises a gradient by Laplace or PRS as printed (d̂ = 1 at ε = 1), in NumPy."""
    c, epsilon = settings.clip, settings.epsilon
    clipped = gradient / max(1.0, np.abs(gradient).sum() / (c / 2))
    if settings.mechanism == "none":
        return np.asarray(clipped)
    if settings.mechanism == "laplace":
        return np.asarray(clipped + rng.laplace(scale=c / epsilon, size=gradient.shape))
    m = rng.choice((-(3**0.5), 0.0, 0.0, 0.0, 0.0, 3**0.5), size=gradient.shape)
    u = min(max(float(m @ gradient), -c), c)
    keep = 1 / (np.exp(epsilon) + 1) + (u + c) / (2 * c) * np.tanh(epsilon / 2)
    return np.asarray(m * (c if rng.random() < keep else -c))


def virtual_time_loop(
    theta: Any, episode: Episode, privatize: Callable[[np.ndarray], np.ndarray], settings: Settings
) -> Outcome:
    """Runs Algorithm 1 with W workers in virtual time.

    The report that is finished earliest arrives next, and its worker starts again with the new θ.
    """
    began, first = time.perf_counter(), theta
    scores: list[int] = []
    buffer: list[np.ndarray] = []
    pending = []
    for worker in range(settings.workers):
        gradient, length = episode(theta, 0)
        pending.append((length, worker, privatize(gradient), length))
    while time.perf_counter() - began < settings.seconds and len(scores) < settings.submissions:
        now, worker, report, length = min(pending, key=lambda p: p[:2])
        scores.append(length)
        buffer.append(report)
        if len(buffer) >= settings.buffer_size:
            mean = np.mean(buffer, axis=0) if len(buffer) > 1 else buffer[0]
            theta = theta - settings.learning_rate * mean.astype(np.float32)
            buffer = []
        gradient, length = episode(theta, len(scores))
        pending[worker] = (now + length, worker, privatize(gradient), length)
    return Outcome(seconds=time.perf_counter() - began, scores=scores, moved=theta - first)
