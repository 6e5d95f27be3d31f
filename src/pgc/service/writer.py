"""Group commit: requests that wait at the same time are written in one transaction.

Each is answered after it is on disk.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pgc.errors import first_line
from pgc.service.admission import Issued, OfferRequest, ReportRequest, Verdict
from pgc.service.database import Database
from pgc.service.store import admit
from pgc.service.traces import traced

log = logging.getLogger("pgc.service")
MOST = 256
"""The most requests in one transaction."""
Waiting = tuple[OfferRequest | ReportRequest, "Future[Issued | Verdict]"]


class Busy(Exception):
    """Too much is waiting; ask again later."""


class Unwritten(Exception):
    """The store failed. Whether a request was written is unknown: sending it again will tell."""


class Writer:
    """One thread that writes groups of requests to the store.

    `after` is called in this thread after each commit in which reports were accepted.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        after: Callable[[], None],
        *,
        most_waiting: int = 2000,
    ) -> None:
        self._database, self._clock, self._after = database, clock, after
        self._queue: queue.Queue[Waiting | None] = queue.Queue(most_waiting)
        self._failing = False
        self.failed_at = -math.inf
        """When the store could not be written last, by the monotonic clock; -inf if never."""
        self._thread = threading.Thread(target=self._run, name="pgc-writer", daemon=True)
        self._thread.start()

    def submit(self, request: OfferRequest | ReportRequest) -> Future[Issued | Verdict]:
        """Returns a future of the decision, which is done when the decision is on disk."""
        future: Future[Issued | Verdict] = Future()
        try:
            self._queue.put_nowait((request, future))
        except queue.Full:
            raise Busy from None
        return future

    @property
    def works(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """How many requests wait to be written."""
        return self._queue.qsize()

    def close(self) -> None:
        """Finishes what is waiting, and stops."""
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

    def _write(self, work: list[Waiting]) -> None:
        try:
            self._database.give_way()
            with traced("commit", requests=len(work)), self._database.writing() as db:
                verdicts = admit(db, [request for request, _ in work], int(self._clock()))
        # no request is acknowledged; a device that sends one again learns whether it was written
        except Exception as error:
            if not self._failing:
                log.error("the store cannot be written: %s", first_line(error))
            self._failing, self.failed_at = True, time.monotonic()
            for _, future in work:
                _tell(future, error=Unwritten(first_line(error)))
            time.sleep(0.1)
            return
        if self._failing:
            log.warning("the store can be written again")
            self._failing = False
        for (_, future), verdict in zip(work, verdicts, strict=True):
            _tell(future, verdict)
        if Verdict.ACCEPTED in verdicts:
            try:
                self._after()
            except Exception:  # the reports are on disk, and this thread must go on
                log.exception("nobody was told of accepted reports")


def _tell(future: Future[Any], verdict: Any = None, error: Exception | None = None) -> None:
    if not future.set_running_or_notify_cancel():  # whoever asked has gone away
        return
    if error is None:
        future.set_result(verdict)
    else:
        future.set_exception(error)
