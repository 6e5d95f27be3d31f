"""A crew: workers that do jobs, in this process, in others, or on other machines (`ray_crew.py`).

A worker can be lost at any moment, with its machine. What it had not finished is given to another, and gives the same bits
(`jobs.py`): nothing is lost, and nothing is randomised twice. Retries are ours: no layer below does any.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from pgc.engines.jobs import Job, perform
from pgc.errors import PgcError

MOST_LOSSES = 3
"""A job that as many workers died of is not tried again."""
QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Of a worker: one core each."""


class Lost(NamedTuple):
    """A worker is gone."""

    why: str


class Failed(NamedTuple):
    """A job raised an exception: a user's error, or ours."""

    ours: bool
    words: str


class Crew(ABC):
    """Jobs in, results out, in any order."""

    size: int
    """How many jobs are done at once."""

    @abstractmethod
    def submit(self, job: Job) -> int:
        """A ticket for a job."""

    @abstractmethod
    def results(self, seconds: float | None = None) -> list[tuple[int, Any]]:
        """What was finished, with its ticket: at least one, unless nothing is under way or the time is over."""

    def close(self) -> None:  # noqa: B027 - not every crew has workers
        """Let the workers go."""

    def do_all(self, jobs: Sequence[Job]) -> list[Any]:
        """Every job's result, in order."""
        places = {self.submit(job): i for i, job in enumerate(jobs)}
        made: list[Any] = [None] * len(jobs)
        while places:
            for ticket, result in self.results():
                made[places.pop(ticket)] = result
        return made

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Alone(Crew):
    """The process does its jobs itself."""

    size = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Job]] = deque()
        self._tickets = 0

    def submit(self, job: Job) -> int:
        """A ticket for a job."""
        self._tickets += 1
        self._waiting.append((self._tickets, job))
        return self._tickets

    def results(self, seconds: float | None = None) -> list[tuple[int, Any]]:
        """The next job's."""
        if not self._waiting:
            return []
        ticket, job = self._waiting.popleft()
        return [(ticket, perform(job))]


class Workers(Crew):
    """What crews of several workers share: who does what, and what becomes of it when one is lost."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._jobs: dict[int, Job] = {}
        self._losses: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._busy: dict[Any, int] = {}
        self._idle: list[Any] = []
        self._tickets = 0
        self.replaced = 0
        """Workers that were lost, so far."""

    @abstractmethod
    def _send(self, worker: Any, job: Job) -> None:
        """Give a job to a worker. `Lost` is told by `_receive`."""

    @abstractmethod
    def _receive(self, seconds: float | None) -> list[tuple[Any, Any]]:
        """What workers returned: a result, `Failed` or `Lost`."""

    @abstractmethod
    def _replace(self, worker: Any) -> None:
        """A new worker for one that was lost; it is idle once it is there."""

    def submit(self, job: Job) -> int:
        """A ticket for a job."""
        self._tickets += 1
        self._jobs[self._tickets] = job
        self._waiting.append(self._tickets)
        self._assign()
        return self._tickets

    def results(self, seconds: float | None = None) -> list[tuple[int, Any]]:
        """What was finished."""
        done: list[tuple[int, Any]] = []
        while self._jobs and not done:
            received = self._receive(seconds)
            for worker, result in received:
                ticket = self._busy.pop(worker, None)
                if isinstance(result, Lost):
                    self._lose(worker, ticket, result)
                    continue
                self._idle.append(worker)
                if ticket is None:
                    continue
                if isinstance(result, Failed):
                    self._jobs.clear()
                    self._waiting.clear()
                    raise RuntimeError(result.words) if result.ours else PgcError(result.words)
                del self._jobs[ticket]
                done.append((ticket, result))
            self._assign()
            if not received:
                break
        return done

    def _assign(self) -> None:
        while self._waiting and self._idle:
            worker, ticket = self._idle.pop(), self._waiting.popleft()
            self._busy[worker] = ticket
            self._send(worker, self._jobs[ticket])

    def _lose(self, worker: Any, ticket: int | None, lost: Lost) -> None:
        self.replaced += 1
        if ticket is not None:
            self._losses[ticket] = self._losses.get(ticket, 0) + 1
            if self._losses[ticket] >= MOST_LOSSES:
                raise PgcError(f"{MOST_LOSSES} workers were lost at the same work ({lost.why}); is there memory enough for it?")
            self._waiting.appendleft(ticket)
        self._replace(worker)


class Process(NamedTuple):
    """A worker in a process of its own."""

    popen: subprocess.Popen[bytes]
    pipe: Connection

    def __hash__(self) -> int:
        return id(self.popen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and other.popen is self.popen


class Processes(Workers):
    """Processes on this machine."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._all: list[Process] = []
        for _ in range(size):
            self._start()

    def _start(self) -> None:
        """Not by `multiprocessing`, which would run a user's script again in every child."""
        ours, theirs = socket.socketpair()
        paths = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
        command = [sys.executable, "-m", "pgc.engines.worker", str(theirs.fileno())]
        popen = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env={**os.environ, **QUIET, "PYTHONPATH": paths}, stdin=subprocess.DEVNULL
        )
        theirs.close()
        worker = Process(popen, Connection(ours.detach()))
        self._all.append(worker)
        self._idle.append(worker)

    def _send(self, worker: Process, job: Job) -> None:
        try:
            worker.pipe.send(job)
        except OSError:
            return  # it is gone: _receive will say so

    def _receive(self, seconds: float | None) -> list[tuple[Any, Any]]:
        by_pipe = {worker.pipe: worker for worker in self._busy}
        made: list[tuple[Any, Any]] = []
        for pipe in wait(list(by_pipe), seconds):
            worker = by_pipe[pipe]
            try:
                made.append((worker, worker.pipe.recv()))
            except (EOFError, OSError):
                made.append((worker, Lost(f"a process ended with {worker.popen.wait()}")))
        return made

    def _replace(self, worker: Process) -> None:
        self._end(worker)
        self._start()

    def _end(self, worker: Process) -> None:
        worker.pipe.close()
        worker.popen.terminate()
        worker.popen.wait()
        self._all.remove(worker)

    def close(self) -> None:
        """Let the workers go."""
        for worker in list(self._all):
            self._end(worker)


def cores() -> Iterator[int]:
    """Those that this process may use."""
    yield from os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def local_crew(processes: int | None) -> Crew:
    """As many processes as are asked for, or as there are cores; none for one."""
    size = len(list(cores())) if processes is None else processes
    if size < 1:
        raise PgcError(f"processes must be at least 1, not {size}")
    return Alone() if size == 1 else Processes(size)
