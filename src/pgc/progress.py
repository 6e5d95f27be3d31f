"""How a long command shows that it is alive."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Watch:
    """A bar with submissions/s, μ and ε on a terminal; a line every ten seconds elsewhere; nothing when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._said = self._began = time.monotonic()
        self._first: int | None = None

    def __enter__(self) -> Callable[[int, int, float, str], None] | None:
        return None if self._quiet else self._show

    def _show(self, done: int, total: int, mu: float, epsilon: str) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = done, now
        rate = (done - self._first) / max(now - self._began, 1e-9)
        words = f"{rate:,.0f}/s  μ = {mu:.1f}  {epsilon}"
        if not sys.stderr.isatty():
            if now - self._said > 10 or done >= total:
                self._said = now
                print(f"{done:,} of {total:,} submissions  {words}", file=sys.stderr, flush=True)
            return
        if self._bar is None:
            columns = (TextColumn("submissions"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("submissions", total=total, words="")
        self._bar.update(self._task, completed=done, words=words)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
