"""What the paper reports: its Tables 1 to 3, and the settings they were made with.

Nothing here is ours.
"""

from __future__ import annotations

import math

EPSILONS = (1.0, 2.0, 5.0, 10.0)
INFINITY = math.inf
TRIALS = 20
SUBMISSIONS = 90_000
DIM = 112

FST_MEDIAN = {  # Table 1
    "laplace": {1.0: 18377.0, 2.0: 20238.5, 5.0: 5714.5, 10.0: 4055.0},
    "prs": {1.0: 25226.5, 2.0: 7549.0, 5.0: 2656.5, 10.0: 11217.5},
    "none": {INFINITY: 1769.0},
}
SUCCESS_RATIO = {  # Table 2
    "laplace": {1.0: 0.80, 2.0: 0.90, 5.0: 1.00, 10.0: 1.00},
    "prs": {1.0: 0.85, 2.0: 0.95, 5.0: 0.90, 10.0: 0.90},
    "none": {INFINITY: 1.00},
}
RELATIVE_AUC = {  # Table 3
    "laplace": {1.0: 0.673, 2.0: 0.711, 5.0: 0.909, 10.0: 0.965},
    "prs": {1.0: 0.660, 2.0: 0.862, 5.0: 0.835, 10.0: 0.771},
    "none": {INFINITY: 1.0},
}
CELLS = tuple((mechanism, epsilon) for mechanism, row in SUCCESS_RATIO.items() for epsilon in row)
"""(mechanism, ε) of every cell of the tables."""


def successes(mechanism: str, epsilon: float) -> int:
    """Returns how many of the paper's 20 trials succeeded."""
    return round(SUCCESS_RATIO[mechanism][epsilon] * TRIALS)


WORDS = {"laplace": "Laplace", "prs": "PRS", "none": "no privacy"}
"""What a sentence calls the mechanisms."""
