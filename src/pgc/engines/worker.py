"""A worker process of `crew.Processes`: jobs from a pipe, results into it, until it is closed."""

from __future__ import annotations

import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from pgc.errors import PgcError


def attempt(job: Any) -> Any:
    """Does a job; returns its result, or the reason why there is none."""
    from pgc.engines.crew import Failed
    from pgc.engines.jobs import perform

    try:
        return perform(job)
    except PgcError as error:
        return Failed(False, str(error))
    except Exception:
        return Failed(True, traceback.format_exc())


def main(pipe: Connection) -> None:
    """Does jobs that arrive on a socket, until nobody sends any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's affair
    try:
        while True:
            pipe.send(attempt(pipe.recv()))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
