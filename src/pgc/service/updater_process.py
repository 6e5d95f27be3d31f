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
LONGEST_PAUSE = 30.0
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
        self._process = self._start()
        self._thread = threading.Thread(target=self._run, name="pgc-updating", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Says that reports were accepted."""
        with contextlib.suppress(OSError):  # it does not read now, or has ended
            os.write(self._process.stdin.fileno(), b"\n")  # type: ignore[union-attr]

    def close(self) -> None:
        """Ends the process, after the turn that is under way."""
        self._stop.set()
        self._end()
        self._thread.join()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgc.service.updating"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(self._first.encode())
            process.stdin.flush()
            os.set_blocking(process.stdin.fileno(), False)
        return process

    def _end(self) -> None:
        process = self._process
        with contextlib.suppress(OSError, ValueError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # what is not stored yet is computed again from the reports
            process.wait()

    def _run(self) -> None:
        pause = 1.0
        while True:
            begun, out = time.monotonic(), self._process.stdout
            assert out is not None
            while os.read(out.fileno(), 4096):
                self._told()
            if self._stop.is_set():
                return
            self._end()
            pause = 1.0 if time.monotonic() > begun + 60 else min(2 * pause, LONGEST_PAUSE)
            log.error(
                "the process that updates has ended (%s); it is started again in %g s",
                _why(self._process.returncode),
                pause,
            )
            if self._stop.wait(pause):
                return
            self._process = self._start()


def _why(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"signal {-code}"
