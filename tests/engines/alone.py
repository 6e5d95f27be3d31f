"""A crew of nobody: jobs are done in the process itself, one at a time, for tests that look inside."""

from __future__ import annotations

from collections import deque
from typing import Any

from pgc.engines.crew import Crew
from pgc.engines.jobs import Job, perform


class Alone(Crew):
    """The process does its jobs itself."""

    size = 1

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[tuple[int, Job]] = deque()

    def _take(self, ticket: int, job: Job) -> None:
        self._waiting.append((ticket, job))

    def _finished(self, seconds: float | None) -> list[tuple[int, Any]]:
        ticket, job = self._waiting.popleft()
        return [(ticket, perform(job))]
