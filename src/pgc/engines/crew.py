"""A crew: workers that do jobs, in other processes or on other machines (`ray_crew.py`).

A worker can be lost at any moment, with its machine. The jobs that it had not finished are given to
another worker and give the same bits (`jobs.py`), so nothing is lost, and nothing is randomised
twice. Only this module retries jobs: no layer below it does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from pgc.engines.jobs import Job
from pgc.errors import PgcError

MOST_LOSSES = 3
"""A job during which this many workers were lost is not tried again."""
QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "NPROC": "1",
}
"""Environment variables of a worker, which restrict it to one CPU core."""


class Lost(NamedTuple):
    """Received in place of a result when a worker is lost."""

    why: str


class Failed(NamedTuple):
    """Received in place of a result when a job raises an exception.

    `ours` says whether it is an error in pgc, and not one that the user can mend.
    """

    ours: bool
    words: str


class Crew(ABC):
    """Workers that are given jobs and return results, in any order."""

    size: int
    """How many jobs are done at once."""

    def __init__(self) -> None:
        self._tickets = 0
        self._kept: dict[int, Any] = {}
        """Finished results that were not asked for yet."""

    def submit(self, job: Job) -> int:
        """Accepts a job and returns its ticket."""
        self._tickets += 1
        self._take(self._tickets, job)
        return self._tickets

    def results(
        self, wanted: Collection[int], seconds: float | None = None
    ) -> list[tuple[int, Any]]:
        """Returns the finished results of the wanted tickets, each of them once.

        Waits for at least one of them, unless nothing at all finishes for `seconds`.
        """
        while True:
            found = [(ticket, self._kept.pop(ticket)) for ticket in wanted if ticket in self._kept]
            if found or not wanted:
                return found
            finished = self._finished(seconds)
            self._kept.update(finished)
            if not finished and seconds is not None:
                return []

    def do_all(self, jobs: Sequence[Job]) -> list[Any]:
        """Returns every job's result, in the order of the jobs."""
        places = {self.submit(job): i for i, job in enumerate(jobs)}
        made: list[Any] = [None] * len(jobs)
        while places:
            for ticket, result in self.results(places.keys()):
                made[places.pop(ticket)] = result
        return made

    @abstractmethod
    def _take(self, ticket: int, job: Job) -> None:
        """Accepts a new job under this ticket."""

    @abstractmethod
    def _finished(self, seconds: float | None) -> list[tuple[int, Any]]:
        """Returns results as soon as there are some, or an empty list after `seconds`."""

    def close(self) -> None:  # noqa: B027 - not every crew has workers
        """Ends all workers of the crew."""

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Workers(Crew):
    """The base class of crews: assigns jobs to workers, and again when a worker is lost."""

    ahead = 1
    """How many jobs a worker is given at a time."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.replaced = 0
        """How many workers were lost and replaced so far."""
        self._jobs: dict[int, Job] = {}
        """The jobs that are not finished, by ticket."""
        self._losses: Counter[int] = Counter()
        self._waiting: deque[int] = deque()
        self._given: dict[Any, list[int]] = {}
        """The tickets of each worker's jobs, in order; it is doing the first one."""

    @abstractmethod
    def _send(self, worker: Any, ticket: int, job: Job) -> None:
        """Sends a job to a worker. If the worker is lost, `_receive` says so."""

    @abstractmethod
    def _receive(self, seconds: float | None) -> list[tuple[Any, int | None, Any]]:
        """Returns what workers sent: worker, ticket, and a result, `Failed` or `Lost`.

        A ticket of None belongs to no job: the worker is ready, or it was lost before it was.
        """

    @abstractmethod
    def _replace(self, worker: Any) -> None:
        """Starts a new worker in place of one that was lost."""

    def _take(self, ticket: int, job: Job) -> None:
        self._jobs[ticket] = job
        self._waiting.append(ticket)
        self._assign()

    def _finished(self, seconds: float | None) -> list[tuple[int, Any]]:
        done: list[tuple[int, Any]] = []
        failed = None
        for worker, ticket, result in self._receive(seconds):
            if isinstance(result, Lost):
                # otherwise this loss was dealt with already
                if ticket is None or worker in self._given:
                    self._lose(worker, result)
                continue
            if ticket is None:
                self._given[worker] = []
                continue
            if worker not in self._given:
                continue  # the worker was given up, and another one does its jobs
            self._given[worker].remove(ticket)
            if self._jobs.pop(ticket, None) is None:
                continue  # the job was given up when another one failed
            if isinstance(result, Failed):
                failed = result
            else:
                done.append((ticket, result))
        if failed is not None:
            self._jobs.clear()
            self._waiting.clear()
            raise RuntimeError(failed.words) if failed.ours else PgcError(failed.words)
        self._assign()
        return done

    def _assign(self) -> None:
        while self._waiting and self._given:
            worker = min(self._given, key=lambda w: len(self._given[w]))
            if len(self._given[worker]) >= self.ahead:
                return
            ticket = self._waiting.popleft()
            self._given[worker].append(ticket)
            self._send(worker, ticket, self._jobs[ticket])

    def _lose(self, worker: Any, lost: Lost) -> None:
        self.replaced += 1
        unfinished = [ticket for ticket in self._given.pop(worker, []) if ticket in self._jobs]
        self._waiting.extendleft(reversed(unfinished))
        self._replace(worker)
        for ticket in unfinished[:1]:  # the job that it was doing
            self._losses[ticket] += 1
            if self._losses[ticket] >= MOST_LOSSES:
                raise PgcError(
                    f"{MOST_LOSSES} workers were lost at the same work ({lost.why}); see their "
                    "output above"
                )


class Process(NamedTuple):
    """A worker in a process of its own."""

    popen: subprocess.Popen[bytes]
    pipe: Connection

    def __hash__(self) -> int:
        return id(self.popen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and other.popen is self.popen


class Processes(Workers):
    """A crew of processes on this machine."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        for _ in range(size):
            self._start()

    def _start(self) -> None:
        """Starts a worker process.

        `multiprocessing` is not used, because it would run a user's script again in every child.
        """
        ours, theirs = socket.socketpair()
        paths = [path or os.getcwd() for path in sys.path]
        paths += [os.getcwd()] if os.getcwd() not in paths else []  # last, as in `errors.load`
        environment = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(paths)}
        popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "pgc.engines.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            # stderr, because a program may read this process's stdout
            stdout=sys.stderr.fileno() if _has_file(sys.stderr) else subprocess.DEVNULL,
        )
        theirs.close()
        worker = Process(popen, Connection(ours.detach()))
        self._given[worker] = []

    def _send(self, worker: Process, ticket: int, job: Job) -> None:
        try:
            worker.pipe.send(job)
        except OSError:
            return  # the worker is gone, and _receive will say so

    def _receive(self, seconds: float | None) -> list[tuple[Any, int | None, Any]]:
        by_pipe = {worker.pipe: worker for worker, tickets in self._given.items() if tickets}
        made: list[tuple[Any, int | None, Any]] = []
        for pipe in wait(list(by_pipe), seconds):
            worker = by_pipe[pipe]
            ticket = self._given[worker][0]
            try:
                made.append((worker, ticket, worker.pipe.recv()))
            except (EOFError, OSError):
                made.append((worker, ticket, Lost(f"a process ended with {worker.popen.wait()}")))
        return made

    def _replace(self, worker: Process) -> None:
        self._end(worker)
        self._start()

    @staticmethod
    def _end(worker: Process) -> None:
        worker.pipe.close()
        worker.popen.terminate()
        worker.popen.wait()

    def close(self) -> None:
        """Ends the worker processes."""
        while self._given:
            self._end(self._given.popitem()[0])


def _has_file(stream: Any) -> bool:
    try:
        return stream.fileno() >= 0  # type: ignore[no-any-return]
    except (OSError, ValueError, AttributeError):
        return False


def local_crew(processes: int | None) -> Crew:
    """Returns a crew of `processes` processes, or of one for each core if that is None.

    A single one is a separate process as well, so that it has one core and rounds as the others do.
    """
    size = len(os.sched_getaffinity(0)) if processes is None else processes
    if size < 1:
        raise PgcError(f"processes must be at least 1, not {size}")
    return Processes(size)
