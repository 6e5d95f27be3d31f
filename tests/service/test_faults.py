"""A year of faults while devices report: a database that restarts, a disk that is full, an updater that hangs, backups.

With real processes: two front ends over a real PostgreSQL, or one over SQLite. `make test` has them only with --all.
"""

import contextlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import warnings

import httpx
import pytest

from pgc.cli.main import main
from pgc.service.database import sqlite_url
from tests.length import SOAK, length
from tests.service.at_work import AtWork
from tests.waiting import wait_for

FAULTS = length(1, 4)
pytestmark = [pytest.mark.soak, pytest.mark.more]


class Server:
    """A PostgreSQL of a test's own, which it may stop at any moment."""

    def __init__(self, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if SOAK:
                import pgserver  # without it a soak would show nothing of PostgreSQL
            else:
                pgserver = pytest.importorskip("pgserver")
            from pgserver import _commands
        self.commands, self.server = _commands, pgserver.get_server(folder)
        self.url = self.server.get_uri()

    def restart(self, how):
        """Ends all sessions: after their transactions, or at once as when the machine loses power."""
        self.commands.pg_ctl(
            ["-w", "-l", str(self.server.log), "-m", how, "restart"],
            pgdata=self.server.pgdata,
            user=self.server.system_user,
        )

    def tool(self, name, *arguments):
        """Runs one of PostgreSQL's programs."""
        program = self.commands.POSTGRES_BIN_PATH / name
        subprocess.run([program, *map(str, arguments)], check=True)


@pytest.fixture
def postgresql(tmp_path_factory):
    import shutil
    import tempfile
    from pathlib import Path

    place = Path(tempfile.mkdtemp(prefix="pgc-postgresql-"))  # pytest closes its own to other users
    place.chmod(0o755)
    made = Server(place / "data")
    yield made
    made.server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


def ready(at_work, n=0):
    with contextlib.suppress(httpx.TransportError):
        url = f"https://127.0.0.1:{at_work.ports[n]}/ready"
        return httpx.get(url, verify=False).status_code
    return None


def test_a_database_restarts_an_updater_hangs_and_a_backup_is_restored(
    postgresql, tmp_path, capsys
):
    at_work = AtWork(tmp_path, postgresql.url, front_ends=2, devices=4)
    dump, copy = tmp_path / "backup.dump", postgresql.url.replace("/postgres?", "/restored?")
    try:
        for n in range(FAULTS):
            at_work.work(random.randint(5, 20))
            postgresql.restart(("immediate", "fast")[n % 2])
            at_work.work(10)
            frozen = at_work.updaters(0) + at_work.updaters(1)
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)  # both: reports are taken, and wait
            at_work.work(25)
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
            at_work.work(10)
            postgresql.tool("pg_dump", "--format=custom", f"--file={dump}", postgresql.url)
        at_work.work(10)
    finally:
        at_work.stop()
    assert at_work.check() >= 55 * FAULTS
    postgresql.tool("psql", "--quiet", "-c", "CREATE DATABASE restored", postgresql.url)
    postgresql.tool("pg_restore", f"--dbname={copy}", dump)
    assert main(["replay", str(tmp_path), "--store", copy]) == 0, capsys.readouterr().err


def test_a_full_disk_and_a_backup_while_reports_come(tmp_path, capsys):
    """The system refuses to let the front end's files grow; readiness says so, devices wait, and nothing is lost."""
    url = sqlite_url(tmp_path / "service" / "store.db")
    at_work = AtWork(tmp_path, url, front_ends=1, devices=3)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    usual = (hard, hard)
    try:
        for n in range(FAULTS):
            at_work.work(random.randint(5, 20))
            processes = [at_work.servers[0].pid, *at_work.updaters(0)]
            for pid in processes:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
            wait_for(lambda: ready(at_work) == 503, "that it says so", at_work.all_live)
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):  # an updater may have given up
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, usual)
            wait_for(lambda: ready(at_work) == 200, "that it is ready again", at_work.all_live)
            at_work.work(10)
            backup = tmp_path / f"backup{n}.db"
            with contextlib.closing(sqlite3.connect(tmp_path / "service" / "store.db")) as db:
                db.execute(f"VACUUM INTO '{backup}'")
            at_work.work(5)
            capsys.readouterr()
            assert main(["replay", str(tmp_path), "--store", sqlite_url(backup)]) == 0, (
                capsys.readouterr().err
            )
    finally:
        at_work.stop()
    assert at_work.check() >= 20 * FAULTS
