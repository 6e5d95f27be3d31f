"""From counts to a lower bound on ε that holds with a stated confidence, and how many samples that
takes.

If an event has probability p under one input and p' under another, the mechanism's ε is at least
ln(p/p'). p is bounded from below and p' from above by the exact method of Clopper and Pearson
(1934), each with half of the error.
"""

from __future__ import annotations

import math

from pgc.errors import require

STRONG = 0.8
"""A lower bound below this share of ε is too weak to call a claim confirmed."""
POWER = 0.995
"""With this probability, as many samples as `samples_for` says refute a claim below the true ε."""


def lower_epsilon(hits: int, n: int, other_hits: int, other_n: int, error: float) -> float:
    """Returns a lower bound on ε: at most ln(p/p') with probability 1 − error, and at least 0."""
    beta = require("scipy.stats", "train").beta
    low = float(beta.ppf(error / 2, hits, n - hits + 1)) if hits else 0.0
    high = (
        float(beta.ppf(1 - error / 2, other_hits + 1, other_n - other_hits))
        if other_hits < other_n
        else 1.0
    )
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def samples_for(
    epsilon: float, likely: float, claim: float, error: float, power: float = POWER
) -> int:
    """Returns how many samples of each input tell a true ε from a `claim` below it, with
    probability `power`.

    `likely` is the probability of the event under the one input; under the other it is e^(−ε) times
    that.
    """
    binom = require("scipy.stats", "train").binom
    spread = (1 - power) / 2

    def enough(n: int) -> bool:
        few, many = (
            int(binom.ppf(spread, n, likely)),
            int(binom.ppf(1 - spread, n, likely * math.exp(-epsilon))),
        )
        return lower_epsilon(few, n, many, n, error) > claim

    high = 256
    while not enough(high) and high < 2**24:
        high *= 2
    low = high // 2
    while high - low > low // 50:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
