"""Laplace noise that may leave a device: integers on a lattice, noise drawn exactly.

    n_i = the clipped gradient in units of C/2/UNITS, rounded towards zero, ‖n‖₁ ≤ UNITS as integers
    y_i = n_i + x_i,   P(x_i = x) ∝ e^(−|x|·ε/(2·UNITS))

**Guarantee.** ε-LDP for the whole gradient: for any two gradients ‖n − n'‖₁ ≤ 2·UNITS in integers, so P(y|n)/P(y|n') ≤ e^ε, with
no rounding anywhere between the bound and the draw. Floating point only decides *which* n stands for a gradient.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pgc.mechanisms.clip import clip_l1
from pgc.release.exact import discrete_laplace

UNITS = 2**16
"""Lattice points in C/2: a unit is far below the noise at any ε below 100."""


def release_laplace(gradient: np.ndarray, clip: float, epsilon: float) -> list[int]:
    """The numbers y of one report."""
    scale = Fraction(2 * UNITS) / Fraction(epsilon)
    return [n + discrete_laplace(scale) for n in on_lattice(gradient, clip)]


def decode_laplace(numbers: list[int], clip: float) -> np.ndarray:
    """g̃: an unbiased estimate of the clipped gradient, but for half a unit. Post-processing."""
    return np.array(numbers, np.float64) * (clip / 2 / UNITS)


def on_lattice(gradient: np.ndarray, clip: float) -> list[int]:
    """The integers n. Their absolute values add up to at most UNITS, whatever the gradient is (NaN and Inf become zero)."""
    clipped = clip_l1(np.asarray(gradient, np.float64).ravel(), clip / 2)
    numbers = [math.trunc(x / (clip / 2) * UNITS) for x in clipped.tolist()]
    # Rounding in the clip is a millionth of a unit, so this holds anyway; the guarantee does not hang on that.
    return numbers if sum(map(abs, numbers)) <= UNITS else [0] * len(numbers)
