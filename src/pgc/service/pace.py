"""How often a thread looks at what other processes did: often while something happens, seldom when
nothing does.
"""

from __future__ import annotations

import threading
import time

BUSY_SECONDS, IDLE_SECONDS = 0.1, 1.0
"""Seconds between two looks."""
STAYS_BUSY = 5.0
"""Seconds for which it looks often after something happened."""


class Pace:
    """The pause between two turns of a thread."""

    def __init__(self) -> None:
        self._wake = threading.Event()
        self._busy_until = 0.0

    def hurry(self) -> None:
        """Says that something happened: the pause under way ends, and the next ones are short."""
        self._busy_until = time.monotonic() + STAYS_BUSY
        self._wake.set()

    def wait(self) -> None:
        """Waits for the next turn."""
        busy = time.monotonic() < self._busy_until
        self._wake.wait(BUSY_SECONDS if busy else IDLE_SECONDS)
        self._wake.clear()
