"""A worker process of `crew.Processes`.

It receives jobs from a pipe and sends back their results, until the pipe is closed.
"""

from __future__ import annotations

import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from pgc.errors import PgcError


def attempt(job: Any) -> Any:
    """Does a job and returns its result, or `Failed` with the reason why there is none."""
    from pgc.engines.crew import Failed
    from pgc.engines.jobs import perform

    try:
        return perform(job)
    except PgcError as error:
        return Failed(False, str(error))
    except Exception:
        return Failed(True, traceback.format_exc())


def main(pipe: Connection) -> None:
    """Does the jobs that arrive on the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver reacts to Ctrl-C
    try:
        while True:
            pipe.send(attempt(pipe.recv()))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
