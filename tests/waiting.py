"""Waiting for a condition. Nothing here depends on how long it takes, unless it never comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LIMIT = 1200.0
"""Seconds after which something hangs. It is far longer than anything takes, also on a machine that is busy with other work."""
T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], what: str, meanwhile: Callable[[], object] = lambda: None
) -> T:
    """Returns what `condition` returns once it is true. `meanwhile` may raise, when there is no use in waiting longer."""
    until = time.monotonic() + LIMIT  # the only clock: it ends a hang
    while not (found := condition()):
        meanwhile()
        assert time.monotonic() < until, f"waited {LIMIT:g} s in vain: {what}"
        time.sleep(0.02)  # leaves the cores to those that are waited for
    return found
