"""How a long command shows that it is alive, and how it is asked to stop."""

from __future__ import annotations

import importlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

Progress = Callable[[float, float, str], None]
"""Called with (work done, work in all, what to say about it). Work in all is 0 in a phase of which
nobody knows how long it takes, such as compiling."""
Show = Progress | Literal["auto"] | None
"""How a call from Python shows progress: by a function of one's own; not at all (None); or by a bar
where somebody looks at a terminal or a notebook (auto)."""
BARS = "▁▂▃▄▅▆▇█"
CHECKPOINT_SECONDS = 20.0
"""Seconds between two checkpoints of a run, unless others are asked for."""
EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Watch:
    """Shows progress and the time left; nothing if `quiet`.

    On a terminal it shows a bar, in a notebook a line that changes, and elsewhere it prints a line
    every ten seconds.
    """

    def __init__(self, *, quiet: bool, bar: bool | None = None) -> None:
        self._quiet = quiet
        self._on_screen = sys.stderr.isatty() if bar is None else bar
        self._bar: Any = None
        self._task: Any = None
        self._said = self._began = time.monotonic()
        self._first: float | None = None
        self._total = 0.0
        self._line = ""

    def __enter__(self) -> Progress | None:
        return None if self._quiet else self._show

    def _show(self, done: float, total: float, words: str) -> None:
        now = time.monotonic()
        new = self._first is None or total != self._total or done < self._first
        if done and new:  # a new phase, whose pace says nothing of the last one's
            self._first, self._began, self._total = done, now, total
        # the time left is known only after some progress
        if total and self._first is not None and self._first < done < total:
            left = (now - self._began) * (total - done) / (done - self._first)
            words += f"  {duration(left)} left"
        if _in_notebook():
            line = f"{text_bar(done, total)} {words}"
            self._line = line if total else self._line
            self._show_in_cell(line)
            return
        if not self._on_screen:
            if now - self._said > EVERY or 0 < total <= done:
                self._said = now
                print(words, file=sys.stderr, flush=True)
            return
        if self._bar is None:
            self._bar = Bar(
                SpinnerColumn(),
                BarColumn(),
                TextColumn("{task.fields[words]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None, words="")
        # without a total, the bar pulses
        self._bar.update(self._task, completed=done, total=total or None, words=words)

    def _show_in_cell(self, words: str) -> None:
        """Shows a line below the notebook's cell, in the place of the last one."""
        display = importlib.import_module("IPython.display").display
        said = {"text/plain": words}
        if self._bar is None:
            self._bar = display(said, raw=True, display_id=True)
        else:
            self._bar.update(said, raw=True)

    def __exit__(self, *_: object) -> None:
        if self._line:  # what stays below a notebook's cell is how far it came
            self._show_in_cell(self._line)
        if isinstance(self._bar, Bar):
            self._bar.stop()


@contextmanager
def shown(progress: Show) -> Iterator[Progress | None]:
    """Yields the function that a call from Python reports its progress to, if any."""
    if progress != "auto":
        yield progress
        return
    with Watch(quiet=not (sys.stderr.isatty() or _in_notebook()), bar=True) as report:
        yield report


def _in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def text_bar(done: float, total: float, width: int = 20) -> str:
    """Draws how much of the work is done, in one line of text; blanks if nobody knows."""
    full = round(width * min(1.0, done / total)) if total else 0
    return "━" * full + "╌" * (width - full) if total else " " * width


def sparkline(values: Sequence[float], low: float, high: float, width: int = 20) -> str:
    """Draws numbers in one line of text, a block for each, the newest last."""
    known = [value for value in values if math.isfinite(value)]
    if not known or not high > low:
        return ""
    step = max(1, -(-len(known) // width))
    last = len(BARS) - 1
    share = [(value - low) / (high - low) for value in known[::-1][::step][::-1]]
    return "".join(BARS[round(last * min(1.0, max(0.0, s)))] for s in share)


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
