"""Hyper-parameters that are not given follow from what is public: the dimensions, ε, the buffer,
the kind of actions.

No rule knows the name of a world. How they were chosen, and on which seeds:
docs/learning-under-noise.md.
"""

from __future__ import annotations

import math
from typing import Literal

from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.spaces import Actions, Gaussian

DIMENSION_PER_EPSILON = 12
"""The reported dimension is at most this times ε (and at most this), if a smaller subspace is to be
had: noise grows with it."""
STEP = 0.025
"""Of one report, in units of the policy's outputs at public states, were there no noise."""
LARGEST_OUTPUT = 2.0
LEAST_EPISODES = 4
"""With fewer local episodes there is too little to compare."""


def local_episodes(epsilon: float, directions: int) -> int:
    """Two for each direction and two more; at least ten, or twenty where ε is so small that a clear
    answer is worth it.

    Never more than twenty: play costs no ε, but it costs time. (0 directions: the whole gradient is
    reported.)
    """
    return min(20, max(20 if epsilon <= 0.25 else 10, 2 * directions + 2))


def subspace(epsilon: float, quadratic_dim: int) -> Literal["linear", "quadratic"]:
    """Quadratic functions of the observation if ε affords the dimension, else linear ones."""
    return "quadratic" if quadratic_dim <= DIMENSION_PER_EPSILON * min(1.0, epsilon) else "linear"


def estimator(directions: int, episodes: int) -> Literal["evolution", "policy-gradient"]:
    """Evolution where there are few directions and several episodes to try them, else the policy
    gradient.
    """
    return (
        "evolution"
        if 0 < directions <= MOST_DIRECTIONS and episodes >= LEAST_EPISODES
        else "policy-gradient"
    )


def learning_rate(epsilon: float, buffer_size: int, directions: int) -> float:
    """η = |B|/80·√k·tanh(ε/2): what noise alone adds to the policy does not depend on ε, nor, per
    report, much on |B|.

    A report says no more than a direction, and a policy with k coefficients of like size has a norm
    of √k times that. Where the whole gradient is reported, whose directions are not functions of
    the observation, k counts as 4.
    """
    return STEP * buffer_size * math.sqrt(directions or 4) / 2 * math.tanh(epsilon / 2)


def output_cap(actions: Actions) -> float:
    """Differences of logits beyond 2 leave too little to chance; the mean of a continuous action
    needs no cap.
    """
    return math.inf if isinstance(actions, Gaussian) else LARGEST_OUTPUT
