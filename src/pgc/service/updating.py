"""The process that updates, beside a front end: `python -m pgc.service.updating`.

It reads one line of JSON from its standard input (the store's address, beside which front end it
runs, and whether code may be run), and lives as long as that stays open. A newline there says that
reports were accepted; it writes one to its standard output whenever there is something new to hand
out. It is small, and without JAX, until the lease is its own: any number of them may stand by.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from pgc.errors import PgcError, first_line
from pgc.service.database import Database
from pgc.service.lease import Lease
from pgc.service.logs import set_up_logs
from pgc.service.traces import start_traces

STANDBY_SECONDS = 1.0
log = logging.getLogger("pgc.service")


def main() -> None:
    """Stands by for the lease, and updates as long as it is held."""
    # Ctrl-C goes to every process of a terminal; the front end says when this one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it is for the certificate
    given = json.loads(sys.stdin.buffer.readline())
    set_up_logs(given["logs"])
    end_traces = start_traces("update") if given["traces"] else lambda: None
    ended, accepted = threading.Event(), threading.Event()
    threading.Thread(target=_listen, args=(ended, accepted), daemon=True).start()
    try:
        database = Database(given["store"])
        lease = Lease(database)
        while not ended.is_set() and not _taken(lease):
            ended.wait(STANDBY_SECONDS)
        if not ended.is_set():
            _update(database, lease, given, ended, accepted)
        end_traces()
    except Exception as error:
        log.error("the process that updates ends: %s", first_line(error))
        sys.stderr.flush()
        os._exit(1)
    # what matters is on disk: tidying up a process with JAX in it takes longer than it is worth
    os._exit(0)


def _taken(lease: Lease) -> bool:
    try:
        return lease.take()
    except Exception as error:  # the database is away: it is asked again
        log.debug("no lease: %s", first_line(error))
        lease.leave()
        return False


def _update(
    database: Database,
    lease: Lease,
    given: dict[str, Any],
    ended: threading.Event,
    accepted: threading.Event,
) -> None:
    from pgc.service.scoring import Scorer
    from pgc.service.updater import Updater

    updater = Updater(database, lease, run_code=given["run_code"], where=given["where"], told=_tell)
    scorer = Scorer(database, updater)
    while not ended.is_set():
        accepted.wait()
        accepted.clear()
        updater.wake()
    scorer.close()
    updater.close()
    database.close()


def _listen(ended: threading.Event, accepted: threading.Event) -> None:
    """Sets `accepted` for each newline of the front end, and both when its end of the pipe closes:
    it stopped, or was killed.
    """
    while os.read(sys.stdin.fileno(), 4096):
        accepted.set()
    ended.set()
    accepted.set()
    time.sleep(30.0)  # a turn that hangs must not keep the process
    os._exit(1)


def _tell() -> None:
    with contextlib.suppress(OSError):  # the front end has gone, and `_listen` ends this process
        os.write(sys.stdout.fileno(), b"\n")


if __name__ == "__main__":
    try:
        main()
    except PgcError as refused:
        sys.exit(f"pgc: {refused}")
