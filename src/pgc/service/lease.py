"""The right to update θ, which one process holds at a time.

With PostgreSQL it is the process whose session holds an advisory lock. Versions are written in that
very session, so a process that has lost the lock cannot write. When the process dies, the lock is
free, and another one continues from what the store holds. With SQLite it is the process that holds
a lock on a file beside the database.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sql

from pgc.service.database import Database, explicit
from pgc.service.schema import LOCK


class Lease:
    """The right to update θ, which one process holds at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: sql.Connection | None = None
        self._file: int | None = None

    def take(self) -> bool:
        """Takes the lease if it is free; returns whether this process holds it."""
        if self._database.path is not None:
            return self._take_file(str(self._database.path) + ".updater")
        if self._session is None:
            session = self._database.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            )
            if not session.execute(
                sql.text("SELECT pg_try_advisory_lock(:a, 1)"), {"a": LOCK}
            ).scalar_one():
                session.close()
                return False
            # a process that hangs, and so does not ask, loses the lease
            session.exec_driver_sql("SET idle_session_timeout = '30s'")
            self._session = session
        try:
            self._session.execute(sql.text("SELECT 1"))
        except sql.exc.SQLAlchemyError:
            self.leave()
            return False
        return True

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """Opens a transaction that fails if the lease is lost."""
        if self._session is None:
            with self._database.asked_for(), self._database.writing() as db:
                yield db
            return
        with explicit(self._session, "BEGIN") as db:
            yield db

    def leave(self) -> None:
        """Frees the lease for another process."""
        if self._session is not None:
            session, self._session = self._session, None
            with contextlib.suppress(sql.exc.SQLAlchemyError):
                session.invalidate()
                session.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take_file(self, path: str) -> bool:
        if self._file is None:
            opened = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(opened)
                return False
            self._file = opened
        return True
