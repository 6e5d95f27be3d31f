"""Rules for hyper-parameters that are not given.

They use only what is public: the dimensions, ε, the buffer size and the kind of actions. No rule
knows the name of a world. docs/learning-under-noise.md says how the rules were chosen, and on which
seeds.
"""

from __future__ import annotations

import math
from typing import Literal

from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.spaces import Actions, Bounds, Gaussian

DIMENSION_PER_EPSILON = 12
"""A quadratic subspace is used only if its dimension is at most this times min(1, ε), because noise
grows with the dimension."""
STEP = 0.025
"""How far one report would move the policy's outputs at public states if there were no noise."""
LARGEST_OUTPUT = 2.0
STEP_DECAY = 12.5
"""n₀/k of a step that shrinks as 1/√(1 + n/n₀). CartPole, with k = 4, needs about n₀ reports at
ε = 1."""
TRIED = 4 / 3
"""How far the outputs of the policies that evolution tries should differ from those of θ: the mean
square of the difference over the public box, for each contrast of the outputs. 4/3 is its value for
σ = 1 in a linear subspace of CartPole, which has four observations and two actions. It is a third
of the largest mean square of the outputs themselves (`LARGEST_OUTPUT`²), in any world."""
LONGEST_REPORT = 1.5
"""Reports are shortened to this many times the root mean square length of an honest one, where
their lengths differ: few honest reports are longer, and a hostile one could be without end."""
MOST_EPISODES = 60
"""The most local episodes, unless more are asked for."""
LEAST_DISCOUNT = 0.99
"""γ of worlds whose episodes have at most 200 steps, as in the paper."""
UNITS = 16
"""Units of the hidden layer."""
UNITS_EACH = 4
"""A layer of ReLU units expresses linear functions well with so many units for each observation."""
LEARNT_SPREAD = 0.6
"""σ in a learnt subspace, relative to how far good policies lie from the start."""
LEARNT_EPISODES = 20
"""The fewest local episodes in a learnt subspace, where good policies differ little from each
other, and at small ε."""
LEAST_EPISODES = 4
"""Evolution is used only with at least this many local episodes, which it compares."""


def local_episodes(epsilon: float, directions: int, learnt: bool = False) -> int:
    """Returns how many local episodes an agent plays: 2·directions + 2, from 10 to 60.

    It is at least 20 in a learnt subspace, and if ε is so small that a more precise gradient is
    worth the time. More would cost no ε, but too much time. `directions` is 0 if the whole gradient
    is reported.
    """
    least = LEARNT_EPISODES if learnt or epsilon <= 0.25 else 10
    return min(MOST_EPISODES, max(least, 2 * directions + 2))


def discount(max_steps: int) -> float:
    """Returns γ = 1 − 2/max_steps, but at least 0.99.

    A goal that is reached late in a long episode must be worth something at its start: with
    γ = 0.99, a reward 300 steps ahead counts a twentieth.
    """
    return max(LEAST_DISCOUNT, 1 - 2 / max_steps)


def subspace(epsilon: float, quadratic_dim: int) -> Literal["linear", "quadratic"]:
    """Returns `quadratic` if its dimension is small enough for this ε, else `linear`."""
    return "quadratic" if quadratic_dim <= DIMENSION_PER_EPSILON * min(1.0, epsilon) else "linear"


def hidden(observations: int, linear: bool) -> tuple[int, ...]:
    """Returns the widths of the hidden layers: one of 16 units; in a linear subspace none, if those
    would be too few to express every linear function of the observations.
    """
    return () if linear and UNITS_EACH * observations > UNITS else (UNITS,)


def constant(bounds: Bounds) -> bool:
    """Returns whether a linear policy needs a constant: if 0 is not in the public box of some
    number, and so is no usual value of it.
    """
    return any(low > 0 or high < 0 for low, high in bounds)


def estimator(directions: int, episodes: int) -> Literal["evolution", "policy-gradient"]:
    """Returns `evolution` if there are few directions and enough episodes to try them.

    Otherwise it returns `policy-gradient`.
    """
    return (
        "evolution"
        if 0 < directions <= MOST_DIRECTIONS and episodes >= LEAST_EPISODES
        else "policy-gradient"
    )


def learning_rate(epsilon: float, buffer_size: int, directions: int) -> float:
    """Returns η = |B|/80·√k·tanh(ε/2), where k is the number of directions.

    With this η, what noise alone adds to the policy per report does not depend on ε, and hardly on
    |B|. The factor √k is there because a report tells only a direction, and a policy with k
    coefficients of similar size has √k times the norm of one of them. If the whole gradient is
    reported (0 directions), k = 4.
    """
    return STEP * buffer_size * math.sqrt(directions or 4) / 2 * math.tanh(epsilon / 2)


def spread(output_change: float | None, learnt: bool = False) -> float:
    """Returns σ of evolution, such that the outputs of tried policies differ from those of θ by the
    same amount, `TRIED`, in every subspace.

    `output_change` is the amount for σ = 1 (`FeatureSubspace.output_change`). If it is unknown
    (None), σ is 1. In a learnt subspace it is `LEARNT_SPREAD`.
    """
    if learnt:
        return LEARNT_SPREAD
    return 1.0 if output_change is None else math.sqrt(TRIED / output_change)


def step_decay(epsilon: float, cap: float, directions: int) -> float:
    """Returns n₀ of the shrinking step: 12.5·k/min(1, ε)² where outputs are capped, else inf.

    A mean of so many reports is equally precise at every ε up to 1 and in any number k of
    directions. If the whole gradient is reported (0 directions), k = 4.

    With a cap the norm of θ stays the same, so steps of one size would let the last reports undo
    what thousands of earlier ones did. Without a cap noise makes the norm grow, and steps of one
    size mean less and less.
    """
    return STEP_DECAY * (directions or 4) / min(1.0, epsilon) ** 2 if cap < math.inf else math.inf


def output_cap(actions: Actions) -> float:
    """Returns the cap on a policy's outputs: 2 for logits, inf (no cap) for continuous actions.

    Larger differences of logits would leave too little to chance, whereas the mean of a continuous
    action needs no cap.
    """
    return math.inf if isinstance(actions, Gaussian) else LARGEST_OUTPUT
