"""A crew on a Ray cluster (`--engine ray`).

The cluster is an existing one (`--address`) or a local one that is started for the run.

Ray restarts and retries nothing here (`max_restarts=0`, `max_task_retries=0`): what is lost with an
actor or a node is given to another by `Workers`, with the same arguments, so it gives the same
bits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import warnings
from typing import Any

from pgc.engines.crew import QUIET, Lost, Workers
from pgc.engines.jobs import Job
from pgc.errors import PgcError, in_one_line, require

REACH_SECONDS = 10.0
"""How long an address may take to answer."""
LOOK_SECONDS = 5.0
"""How often, in seconds, the crew looks for nodes that have joined the cluster."""


class RayCrew(Workers):
    """A crew of Ray actors: one for each CPU of the cluster, or as many as are asked for."""

    ahead = 2
    """An actor does one job while the result of the last one and the next job travel."""

    def __init__(self, address: str | None = None, processes: int | None = None) -> None:
        self._ray = require("ray", "ray")
        if processes is not None and processes < 1:
            raise PgcError(f"processes must be at least 1, not {processes}")
        self._ours = not self._ray.is_initialized()
        if self._ours:
            with warnings.catch_warnings():
                # Ray forks beside JAX's threads, which is safe because it execs at once
                warnings.simplefilter("ignore", RuntimeWarning)
                _connect(self._ray, address, processes)
        self._asked = processes
        super().__init__(self._wanted())
        self._remote = self._ray.remote(
            num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )(RayWorker)
        self._refs: dict[Any, tuple[Any, int | None]] = {}
        """The actor and the ticket of each Ray reference that is waited for."""
        for _ in range(self.size):
            self._start()
        self._looked = time.monotonic()

    def _wanted(self) -> int:
        return self._asked or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _start(self) -> None:
        """Asks Ray for an actor, which is made when there is room and is idle once it answers."""
        actor = self._remote.remote(os.getcwd())
        self._refs[actor.ready.remote()] = actor, None

    def _send(self, worker: Any, ticket: int, job: Job) -> None:
        self._refs[worker.perform.remote(job)] = worker, ticket

    def _receive(self, seconds: float | None) -> list[tuple[Any, int | None, Any]]:
        ray, made = self._ray, []
        self._look_for_nodes()
        done, _ = ray.wait(
            list(self._refs),
            timeout=LOOK_SECONDS if seconds is None else seconds,
            fetch_local=False,
        )
        for ref in done:
            worker, ticket = self._refs.pop(ref)
            try:
                made.append((worker, ticket, ray.get(ref)))
            # the actor was lost, or its node, or an object on that node
            except ray.exceptions.RayError as error:
                made.append((worker, ticket, Lost(in_one_line(error))))
        if not made and seconds is None:
            return self._receive(None)
        return made

    def _look_for_nodes(self) -> None:
        """Starts more actors if the cluster has grown."""
        if self._asked is None and time.monotonic() > self._looked + LOOK_SECONDS:
            self._looked = time.monotonic()
            while self.size < self._wanted():
                self.size += 1
                self._start()

    def _replace(self, worker: Any) -> None:
        with contextlib.suppress(Exception):  # most likely it is gone already
            self._ray.kill(worker)
        self._start()

    def close(self) -> None:
        """Ends the actors, and leaves the cluster if this crew joined or started it."""
        for worker in {*(worker for worker, _ in self._refs.values()), *self._given}:
            with contextlib.suppress(Exception):
                self._ray.kill(worker)
        if self._ours:
            self._ray.shutdown()


class RayWorker:
    """A worker of the crew, which runs as a Ray actor."""

    def __init__(self, folder: str) -> None:
        os.environ.update(QUIET)
        if folder not in sys.path:
            # the driver's folder, last, as in `errors.load`, so that it hides no module of Python
            sys.path.append(folder)

    def ready(self) -> None:
        """Answers as soon as the actor exists."""

    def perform(self, job: Job) -> Any:
        """Does a job and returns its result, or `Failed` with the reason why there is none."""
        from pgc.engines.worker import attempt

        return attempt(job)


def _connect(ray: Any, address: str | None, processes: int | None) -> None:
    """Joins the cluster at `address`, or starts one on loopback if that is None."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "configure_logging": False,
    }
    environment = {"env_vars": QUIET}
    if address is None:
        ray.init(
            num_cpus=processes,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            runtime_env=environment,
            **quiet,
        )
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), REACH_SECONDS).close()
        except (OSError, ValueError) as error:
            raise PgcError(
                f"no Ray cluster answers at {address} ({error}); give --address HOST:PORT of its "
                "head, or auto"
            ) from None
    try:
        ray.init(address=address, runtime_env=environment, **quiet)
    except Exception as error:
        raise PgcError(f"cannot join the Ray cluster at {address} ({in_one_line(error)})") from None
