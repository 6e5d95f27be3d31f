"""How an agent's ε is divided over all it ever sends.

Pure ε composes sequentially: the parts add up (Theorem 1 of the paper).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from pgc.errors import PgcError

NANO = 10**9
LARGEST_NANO = 1000 * NANO
"""The largest ε that can be charged, 1000: sums of many such still fit into 64 bits."""


def split_budget(epsilon: float, score_epsilon: float, submissions: int) -> tuple[float, float]:
    """Returns the ε of the gradient and of the score bit in one of T submissions, rounded down so
    that T times their sum never exceeds ε.
    """
    if math.isinf(epsilon):
        return epsilon, score_epsilon / submissions
    score = score_epsilon / submissions
    while Fraction(score) * submissions > Fraction(score_epsilon):
        score = math.nextafter(score, 0)
    gradient = (epsilon - score_epsilon) / submissions
    while (Fraction(gradient) + Fraction(score)) * submissions > Fraction(epsilon):
        gradient = math.nextafter(gradient, 0)
    return gradient, score


def nano_of(epsilon: float) -> int:
    """Returns ε as a whole number of nano-ε, rounded down.

    A float counts as the decimal number that it prints as: 0.1 is 100,000,000 nano-ε, and ten times
    that is ε = 1.
    """
    if not 0 <= epsilon <= LARGEST_NANO / NANO:
        raise PgcError(
            f"an epsilon that can be charged is between 0 and {LARGEST_NANO // NANO}, not "
            f"{epsilon:g}"
        )
    epsilon = float(epsilon)  # exact, also for a float32
    nearest = round(epsilon * NANO)
    return nearest if epsilon_of(nearest) == epsilon else int(Decimal(repr(epsilon)) * NANO)


def epsilon_of(nano: int) -> float:
    """Returns the largest float that is at most this number of nano-ε, so that the ε of a mechanism
    is never more than the ε that is charged.
    """
    epsilon = nano / NANO
    while Fraction(epsilon) > Fraction(nano, NANO):
        epsilon = math.nextafter(epsilon, 0)
    return epsilon


def epsilon_shown(nano: int) -> float:
    """Returns ε for people to read: rounded up at the sixth digit, never less than is charged."""
    return math.ceil(nano / 1000) / 10**6


def epsilon_text(nano: int) -> str:
    """Returns a number of nano-ε as text for people to read, such as "ε = 0.5"."""
    return f"ε = {nano / NANO:.9g}"


def not_enough(cost: int, spent: int, most: int) -> str:
    """Says that a report would cost more than is left; all amounts are in nano-ε."""
    return (
        f"this costs {epsilon_text(cost)} and {epsilon_text(most - spent)} of "
        f"{epsilon_text(most)} is left"
    )
