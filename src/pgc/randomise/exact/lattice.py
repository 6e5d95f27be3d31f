"""Laplace noise that may leave a device: integers on a lattice, noise drawn exactly.

    N = ⌊ε·SCALE/2⌋    lattice points in C/2, the radius of the clip
    n_i = the clipped gradient in units of C/(2N), rounded towards zero, ‖n‖₁ ≤ N as integers
    y_i = n_i + x_i,   P(x_i = x) ∝ e^(−|x|/SCALE),        cut off at ±LARGEST

**Guarantee.** ε-LDP for the whole gradient: for any two gradients ‖n − n'‖₁ ≤ 2N ≤ ε·SCALE in
integers, so P(y|n)/P(y|n') ≤ e^ε, with no rounding anywhere between the bound and the draw.
Floating point only decides *which* n stands for a gradient. Cutting off is post-processing, and
happens once in e^1500 draws.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pgc.randomise.exact.discrete_laplace import discrete_laplace
from pgc.randomise.mechanisms.clip import clip_l1

SCALE = 2**20
"""The scale of the noise, in lattice points: their distance is far below the noise."""
LARGEST = 2**31 - 1
"""The largest absolute value that is sent: it fits into four bytes."""
LARGEST_EPSILON = 1024
"""The largest ε: beyond it, the lattice would not fit into four bytes."""


def radius(epsilon: float) -> int:
    """Returns N, the number of lattice points in the radius of the clip."""
    return math.floor(Fraction(epsilon) * SCALE / 2)


def release_laplace(gradient: np.ndarray, clip: float, epsilon: float) -> list[int]:
    """Draws the numbers y of one report."""
    return [
        max(-LARGEST, min(LARGEST, n + discrete_laplace(Fraction(SCALE))))
        for n in on_lattice(gradient, clip, radius(epsilon))
    ]


def decode_laplace(numbers: list[int], clip: float, epsilon: float) -> np.ndarray:
    """Returns g̃, an estimate of the clipped gradient, unbiased but for rounding to the lattice."""
    return np.array(numbers, np.float64) * (clip / 2 / radius(epsilon))


def on_lattice(gradient: np.ndarray, clip: float, most: int) -> list[int]:
    """Returns the integers n for a gradient.

    Their absolute values add up to at most N = `most`, whatever the gradient is (NaN and Inf become
    zero).
    """
    clipped = clip_l1(np.asarray(gradient, np.float64).ravel(), clip / 2)
    numbers = [math.trunc(x / (clip / 2) * most) for x in clipped.tolist()]
    # Rounding in the clip is a millionth of a unit, so the sum never exceeds N; this check means
    # that the guarantee does not depend on it.
    return numbers if sum(map(abs, numbers)) <= most else [0] * len(numbers)
