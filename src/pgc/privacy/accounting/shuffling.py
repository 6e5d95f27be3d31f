"""Amplification by shuffling: what an observer who sees n reports *in random order, without their
senders* learns about one of them.

With probability 2/(e^ε₀ + 1), the report of another agent, by any ε₀-LDP mechanism, hides the
report in question: it is as if that agent had sent one of the two extreme reports, each with
probability ½ (Feldman, McMillan and Talwar 2023; Wang et al. 2023, the variation ratio bound). So
it is enough to compare, exactly,

    (A + Δ, C − A + 1 − Δ)  with  (A + 1 − Δ, C − A + Δ),
    C ~ Bin(n − 1, 2/(e^ε₀ + 1)),  A ~ Bin(C, ½),  P(Δ = 1) = e^ε₀/(e^ε₀ + 1).
"""

from __future__ import annotations

import math

import numpy as np

from pgc.errors import PgcError, require
from pgc.privacy.accounting.composition import smallest

ASSUMPTIONS = (
    "the n reports are collected first and shuffled together by someone who does not work with the "
    "aggregator",
    "that someone removes sender, offer number, policy version, address and time of arrival: "
    "whatever tells two reports apart",
    "all n were made with the same θ, by the same mechanism with the same ε; with a buffer, n is "
    "at most |B|",
    "all n are there and honest: every report that the adversary knows or makes itself lowers n by "
    "one",
    "it protects against the one who sees the shuffled reports, not against the shuffler, for whom "
    "the local ε holds",
    "it holds for one batch: an agent that reports in several batches pays for each",
)


def shuffled(epsilon: float, n: int, delta: float) -> float:
    """Returns the central ε, at δ, of one report among n that are shuffled together.

    It is never more than the local ε.
    """
    if n < 1:
        raise PgcError(f"at least one report must be shuffled, not {n}")
    if not 1e-12 <= delta < 1:
        raise PgcError(
            f"amplification by shuffling needs a delta between 1e-12 and 1, not {delta:g}"
        )
    return smallest(lambda at: shuffled_delta(epsilon, n, at) > delta, epsilon)


def shuffled_delta(epsilon: float, n: int, central: float) -> float:
    """Returns the smallest δ for which (central, δ) holds: a sum over C of two binomial tails, plus
    the probability of the C that are left out.
    """
    binom = require("scipy.stats", "train").binom
    hides, truth = 2 / (math.exp(epsilon) + 1), 1 / (1 + math.exp(-epsilon))
    low, high = (int(binom.ppf(q, n - 1, hides)) for q in (1e-14, 1 - 1e-14))
    c = np.arange(low, high + 1)
    weight = binom.pmf(c, n - 1, hides)
    lie, grown = 1 - truth, math.exp(central)
    # The ratio of the two probabilities of (a, c + 1 − a) grows with x = a/(c + 1 − a): (truth·x +
    # lie)/(lie·x + truth).
    gain, loss = truth - grown * lie, grown * truth - lie
    if gain <= 0:
        return 0.0
    # from this a on, the ratio exceeds e^central
    first = np.ceil((c + 1) * (loss / gain) / (1 + loss / gain) - 1e-9)
    tails = gain * binom.sf(first - 2, c, 0.5) - loss * binom.sf(first - 1, c, 0.5)
    left_out = 0.0 if (low, high) == (0, n - 1) else 2e-14
    return float(np.sum(weight * np.maximum(tails, 0))) + left_out
