"""A front end's own process that updates (`updating.py`): started, woken, and started again if it
ends.

The front end itself needs no JAX then, is ready at once, and answers while θ is computed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger("pgc.service")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds until the process is started again; they grow while it ends soon."""
STOP_SECONDS = 5.0


class UpdaterProcess:
    """The process that updates, or stands by to."""

    def __init__(
        self,
        url: str,
        *,
        where: str,
        run_code: bool,
        logs: dict[str, str],
        told: Callable[[], None],
        traces: bool = False,
    ) -> None:
        """Starts the process. `told` is called when there is something new to hand out."""
        given = {
            "store": url,
            "where": where,
            "run_code": run_code,
            "logs": logs,
            "traces": traces,
        }
        self._first = json.dumps(given) + "\n"
        self._told, self._stop = told, threading.Event()
        self._lock = threading.Lock()
        """Held while the pipe to the process is used or exchanged: a number of a file that was
        closed may be another file's by then."""
        self.starts = 0
        """How often the process was started."""
        self._process: subprocess.Popen[bytes] | None = self._start()
        self._thread = threading.Thread(target=self._run, name="pgc-updating", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Says that reports were accepted. Does nothing while there is no process."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError, ValueError):  # it does not read now, or has ended
                    os.write(self._process.stdin.fileno(), b"\n")

    def pid(self) -> int | None:
        """Returns the number of the process; None while there is none."""
        process = self._process
        return None if process is None else process.pid

    def close(self) -> None:
        """Ends the process, after the turn that is under way."""
        self._stop.set()
        self._end()
        self._thread.join(2 * STOP_SECONDS)

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            # -P: what lies in the folder where the operator stands is not imported
            [sys.executable, "-P", "-m", "pgc.service.updating"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.starts += 1
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(self._first.encode())
            process.stdin.flush()
            os.set_blocking(process.stdin.fileno(), False)
        return process

    def _end(self) -> int:
        """Ends the process that runs, if any; returns how it ended."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return 0
            with contextlib.suppress(OSError, ValueError):
                process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # what is not stored yet is computed again from the reports
            process.wait()
        return process.returncode

    def _run(self) -> None:
        """Passes on what the process says, and starts another one when it ends."""
        pause = FIRST_PAUSE
        while True:
            begun, process = time.monotonic(), self._process
            if process is not None and process.stdout is not None:
                with process.stdout as said:
                    while os.read(said.fileno(), 4096):
                        self._told()
            if self._stop.is_set():
                return
            code = self._end()
            lived = time.monotonic() > begun + 60
            pause = FIRST_PAUSE if lived else min(2 * pause, LONGEST_PAUSE)
            log.error(
                "the process that updates has ended (%s); it is started again in %g s",
                *(_why(code), pause),
            )
            if self._stop.wait(pause):
                return
            try:
                made = self._start()
            except OSError as error:  # no memory, or no process: later, perhaps
                log.error("the process that updates cannot be started (%s)", error.strerror)
                continue
            with self._lock:
                self._process = made
            if self._stop.is_set():  # `close` came while there was none to end
                self._end()
                return


def _why(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"signal {-code}"
