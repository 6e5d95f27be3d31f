"""What T submissions of one agent cost together.

    basic     (T·ε, 0)    Theorem 1 of the paper: the ε of all parts add up. The ledger charges this
    optimal   (ε', δ)     the smallest ε' that holds for *every* sequence of pure ε-LDP reports
                          (Kairouz, Oh and Viswanath 2015)
    pld       (ε', δ)     the same by dp-accounting's privacy loss distributions: a check

At worst, an ε-LDP report is randomised response with that ε, whose privacy loss is ±ε; the exact
sums below follow from that. The noisy boolean is one more part of each submission, with its own ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pgc.errors import PgcError, require
from pgc.randomise.budget import epsilon_of, nano_of

MOST_TERMS = 4_000_000
DOUBT = 1e-12
"""The relative rounding error of the sums, by which δ is reduced."""


def basic(epsilon: float, score_epsilon: float, submissions: int) -> float:
    """Returns T·(ε + ε_b): the parts add up."""
    return submissions * (epsilon + score_epsilon)


def optimal(epsilon: float, score_epsilon: float, submissions: int, delta: float) -> float:
    """Returns the smallest ε' for which δ(ε') = E[(1 − e^(ε' − L))₊] ≤ δ, with L the sum of T
    losses of ±ε and T of ±ε_b.
    """
    parts = [(epsilon, submissions)] + ([(score_epsilon, submissions)] if score_epsilon else [])
    if math.prod(n + 1 for _, n in parts) > MOST_TERMS:
        raise PgcError(
            f"the exact sum for {submissions} submissions has too many terms; leave out "
            "--score-epsilon, or ask for fewer"
        )
    loss, weight = np.zeros(1), np.ones(1)
    for part, n in parts:
        one_loss, one_weight = _losses(part, n)
        loss = (loss[:, None] + one_loss).ravel()
        weight = (weight[:, None] * one_weight).ravel()

    def exceeds(at: float) -> bool:
        return float(np.sum(weight * -np.expm1(np.minimum(at - loss, 0)))) > delta * (1 - DOUBT)

    return smallest(exceeds, basic(epsilon, score_epsilon, submissions))


def pld(epsilon: float, score_epsilon: float, submissions: int, delta: float) -> float:
    """Returns ε' of `optimal`, computed by the library dp-accounting, as a check.

    That library rounds upwards, so the result may be slightly larger. It is at most `basic`.
    """
    module = require("dp_accounting.pld.privacy_loss_distribution", "account")
    parameters = require("dp_accounting.pld.common", "account").DifferentialPrivacyParameters
    interval = min(1e-4, epsilon / 100, score_epsilon / 100 if score_epsilon else 1.0)

    def many(part: float) -> object:
        one = module.from_privacy_parameters(
            parameters(part, 0), value_discretization_interval=interval
        )
        return one.self_compose(submissions)

    total = many(epsilon)
    if score_epsilon:
        total = total.compose(many(score_epsilon))  # type: ignore[attr-defined]
    spent = float(total.get_epsilon_for_delta(delta))  # type: ignore[attr-defined]
    return min(spent, basic(epsilon, score_epsilon, submissions))


def largest_epsilon(target: float, score_epsilon: float, submissions: int, delta: float) -> float:
    """Returns the largest ε of one submission's gradient with which T submissions cost at most the
    target, rounded down to whole nano-ε.
    """

    def cost(nano: int) -> float:
        epsilon = epsilon_of(nano)
        return (
            optimal(epsilon, score_epsilon, submissions, delta)
            if delta
            else basic(epsilon, score_epsilon, submissions)
        )

    if basic(0.0, score_epsilon, submissions) >= target:
        raise PgcError(
            f"{submissions} noisy booleans cost {basic(0, score_epsilon, submissions):g} already; "
            "lower --score-epsilon-per-submission"
        )
    low, high = 0, nano_of(target)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= target else (low, middle)
    return epsilon_of(low)


def _losses(epsilon: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of a sum of n losses of ±ε, of which i are +ε, and their probabilities."""
    binom = require("scipy.stats", "train").binom
    i = np.arange(n + 1)
    return (2 * i - n) * epsilon, np.asarray(binom.pmf(i, n, 1 / (1 + math.exp(-epsilon))))


def smallest(exceeds: Callable[[float], bool], high: float) -> float:
    """Returns the smallest x in [0, high] at which `exceeds(x)` is false, by bisection,
    rounded up.
    """
    if not exceeds(0.0):
        return 0.0
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high
