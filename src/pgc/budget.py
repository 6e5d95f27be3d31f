"""How an agent's ε is divided over all it ever sends. Pure ε composes sequentially: the parts add up (Theorem 1 of the paper)."""

from __future__ import annotations

import math
from fractions import Fraction


def split_budget(epsilon: float, score_epsilon: float, submissions: int) -> tuple[float, float]:
    """ε of the gradient and of the score bit in one of T submissions, rounded down: T times their sum never exceeds ε."""
    if math.isinf(epsilon):
        return epsilon, score_epsilon / submissions
    score = score_epsilon / submissions
    while Fraction(score) * submissions > Fraction(score_epsilon):
        score = math.nextafter(score, 0)
    gradient = (epsilon - score_epsilon) / submissions
    while (Fraction(gradient) + Fraction(score)) * submissions > Fraction(epsilon):
        gradient = math.nextafter(gradient, 0)
    return gradient, score
