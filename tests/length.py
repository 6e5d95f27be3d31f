"""How long tests are whose worth grows with their length: short in `make test`, long in `make soak`."""

import os

SOAK = int(os.environ.get("PGC_SOAK", "0"))
"""0 in `make test`; in `make soak` 1, or more for a longer one."""


def length(short: int, long: int) -> int:
    """How much of something to do: `short`, or in a soak `long` for each unit of its length."""
    return long * SOAK if SOAK else short
