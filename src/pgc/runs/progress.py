"""How a long command shows that it is alive, and how it is asked to stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar

Progress = Callable[[float, float, str], None]
"""Called with (work done, work in all, what to say about it)."""
EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Watch:
    """Shows progress and the time left; nothing if `quiet`.

    On a terminal it shows a bar, elsewhere it prints a line every ten seconds.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._said = self._began = time.monotonic()
        self._first: float | None = None

    def __enter__(self) -> Progress | None:
        return None if self._quiet else self._show

    def _show(self, done: float, total: float, words: str) -> None:
        now = time.monotonic()
        if self._first is None and done:
            self._first, self._began = done, now
        # the time left is known only after some progress
        if self._first is not None and done > self._first:
            words += (
                f"  {duration((now - self._began) * (total - done) / (done - self._first))} left"
            )
        if not sys.stderr.isatty():
            if now - self._said > EVERY or done >= total:
                self._said = now
                print(words, file=sys.stderr, flush=True)
            return
        if self._bar is None:
            self._bar = Bar(
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[words]}"),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=total, words="")
        self._bar.update(self._task, completed=done, total=total, words=words)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def duration(seconds: float) -> str:
    """Writes a length of time in seconds, minutes or hours."""
    minutes = round(seconds / 60)
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{minutes} min"
        if minutes < 90
        else f"{minutes / 60:.1f} h"
    )


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether Ctrl-C or SIGTERM was received, for a loop to call.

    Outside the main thread, where signals cannot be handled, it always returns False.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {s: signal.signal(s, lambda *_: asked.set()) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
