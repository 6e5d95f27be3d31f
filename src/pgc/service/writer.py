"""Group commit: what many requests want to write at one moment is one transaction, and each is told after it is on the disk."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import sqlalchemy as sql

log = logging.getLogger("pgc.service")
Result = TypeVar("Result")
MOST = 256
"""Pieces of work in one transaction."""


class Busy(Exception):
    """Too much is waiting; ask again later."""


class Writer:
    """One thread that writes. `after` is called in it after each commit."""

    def __init__(self, engine: sql.Engine, after: Callable[[], None], *, most_waiting: int = 2000) -> None:
        self._engine, self._after = engine, after
        self._queue: queue.Queue[tuple[Callable[[sql.Connection], Any], Future[Any]] | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._run, name="pgc-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sql.Connection], Result]) -> Future[Result]:
        """The result of the work, once it is committed. The work must not leave a mess behind when it refuses."""
        future: Future[Result] = Future()
        try:
            self._queue.put_nowait((work, future))
        except queue.Full:
            raise Busy from None
        return future

    @property
    def waiting(self) -> int:
        """How much is waiting."""
        return self._queue.qsize()

    def close(self) -> None:
        """Finish what is waiting, and stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < MOST:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            work = [item for item in batch if item is not None]
            if work:
                self._write(work)
            if len(work) < len(batch):
                return

    def _write(self, work: list[tuple[Callable[[sql.Connection], Any], Future[Any]]]) -> None:
        try:
            with self._engine.begin() as db:
                results = [do(db) for do, _ in work]
        except Exception as error:  # nothing of it was written; nobody is told that it was
            for _, future in work:
                future.set_exception(error)
            return
        for (_, future), result in zip(work, results, strict=True):
            future.set_result(result)
        try:
            self._after()
        except Exception:  # what was acknowledged is on the disk; it is tried again after the next commit
            log.exception("after a commit")
