"""Exact random draws: every probability is a fraction, or e to the power of one, and nothing is
rounded.

All randomness comes from the operating system (`secrets`), anew at every call, so neither a fork
nor a copy of a machine repeats it, and nothing that a caller passes can stand in for it. The
algorithms are those of Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential
privacy".
"""

from __future__ import annotations

import secrets
from fractions import Fraction

HALF = Fraction(1, 2)


def bernoulli(probability: Fraction) -> bool:
    """Returns True with this probability."""
    return secrets.randbelow(probability.denominator) < probability.numerator


def bernoulli_exp(gamma: Fraction) -> bool:
    """Returns True with probability e^(−γ), γ ≥ 0 (their Algorithm 1)."""
    while gamma > 1:  # e^(−γ) = e^(−1)·e^(−(γ − 1))
        if not bernoulli_exp(Fraction(1)):
            return False
        gamma -= 1
    k = 1
    while bernoulli(gamma / k):
        k += 1
    return k % 2 == 1


def discrete_laplace(scale: Fraction) -> int:
    """Draws an integer x with P(x) ∝ e^(−|x|/scale) (their Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        low = secrets.randbelow(t)
        if not bernoulli_exp(Fraction(low, t)):
            continue
        high = 0
        while bernoulli_exp(Fraction(1)):
            high += 1
        size = (low + t * high) // s
        negative = bernoulli(HALF)
        if not (negative and size == 0):  # or zero would come twice as often
            return -size if negative else size
