"""What chance may do to the suite, in one place.

Most statistical tests draw from a fixed seed: they pass for ever, or fail for ever. The files listed in `LOOKS` draw from the
operating system, whose bits nobody can repeat, because what they test is what really leaves a device. Each of their comparisons
goes through one of the functions below and gives a false alarm with a probability of at most `LEVEL`:

    agrees(p)       p is the p value of a hypothesis that is true. It is below `LEVEL` with that probability.
    differs(p)      p is the p value of a hypothesis that is wrong by a fifth, or more. Samples are so large that it lies at least
                    12.3 standard deviations from the truth (its p value is typically below 1e-33): 6.1 of them for `LEVEL` in the
                    comparison, and 6.1 so that chance does not hide the difference more often than that.
    surely(it, p)   `it` fails to be true with a probability of p, which is computed beside it and below `LEVEL`.
    in_two(check)   `check` fails by chance with probability `ONCE` at most. Only two failures in a row count.

The whole suite therefore gives a false alarm with a probability of at most LEVEL · (sum of `LOOKS`), which
`tests/test_chance.py` holds below one in a million.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

LEVEL = 2e-9
ONCE = LEVEL**0.5
LOOKS = {
    "tests/randomise/exact/test_exact.py": 4 * 2 + 3 * 2,
    "tests/randomise/exact/test_lattice.py": 2 + 2,
    "tests/randomise/exact/test_opendp.py": 2 * 3 + 3 + 2,
    "tests/randomise/exact/test_release.py": 5 * 3 + 6 * 6,
    "tests/device/test_device.py": 2,
    "tests/device/test_reserve.py": 4,
    "tests/privacy/audit/test_audit.py": 2 * 7,
}
"""For each file that looks at the operating system's bits: how many comparisons it makes in one run."""
_made: Counter[str] = Counter()


def agrees(p: float) -> bool:
    """Whether a p value lets a hypothesis stand. False by chance with probability `LEVEL`."""
    _note()
    return p > LEVEL


def differs(p: float) -> bool:
    """Whether a p value rejects a hypothesis."""
    _note()
    return p < LEVEL


def surely(it: bool, miss: float) -> bool:
    """Whether something holds that fails to by chance with a probability of `miss`, below `LEVEL`."""
    _note()
    assert miss < LEVEL, miss
    return it


def in_two(check: Callable[[], bool], looks: int = 1) -> bool:
    """Whether a check holds in one of two attempts. It makes so many comparisons, each false by chance with `ONCE`."""
    _note(looks)
    return check() or check()


def _note(looks: int = 1) -> None:
    """Counts comparisons, so that no file makes more than `LOOKS` says."""
    where = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    _made[where] += looks
    assert _made[where] <= LOOKS.get(where, 0), (
        f"{where} compares more often than tests/chance.py says"
    )
