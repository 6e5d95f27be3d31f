"""Connections to the database that holds a store: SQLite, or PostgreSQL for several front ends.

`schema.py` has its tables, and `store.py` what is read and written in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from pgc.errors import PgcError, first_line
from pgc.service.private import make_private
from pgc.service.schema import migrate

BUSY = 30_000
"""Milliseconds for which SQLite waits for another process."""
GIVES_WAY = 0.2
"""Seconds for which a group of requests waits at most for another process that wants to write."""
PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "tcp_user_timeout": 20_000,
    "options": "-c lock_timeout=20s -c idle_in_transaction_session_timeout=30s"
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
}
"""Time limits at both ends of a PostgreSQL session: a process that hangs or is cut off in the
middle of a transaction loses its session, and with it its locks."""


class Unreachable(PgcError):
    """A database that does not answer now, and may do so later."""


class Database:
    """Connections to one database.

    `reading` sees what is committed; `writing` is one transaction, on disk when it ends.
    """

    def __init__(self, url: str) -> None:
        """Opens a store. Makes its tables if there are none, and migrates older ones.

        A store that a newer version of pgc made is refused.
        """
        if not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
            raise PgcError("a store is sqlite:///PATH or postgresql://USER@HOST/DATABASE")
        if url == "sqlite:///":
            raise PgcError(f"{url} names no file: sqlite:///PATH, or sqlite:////PATH from the root")
        options = PATIENCE if not url.startswith("sqlite") else {}
        try:
            self.engine = sql.create_engine(
                driver_url(url),
                pool_pre_ping=True,
                hide_parameters=True,  # errors are logged; tokens and payloads are not
                pool_size=5,
                max_overflow=20,
                connect_args=options,
            )
        except (sql.exc.ArgumentError, ValueError):
            raise PgcError("a store is sqlite:///PATH or postgresql://USER@HOST/DATABASE") from None
        except ImportError:
            raise PgcError('a PostgreSQL store needs psycopg: pip install "pgc[service]"') from None
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # SQLite has one writer; waiting here is cheaper than being told that it is busy
        self._writing = threading.Lock()
        if self.is_sqlite:
            try:
                make_private(Path(str(self.engine.url.database)))
            except OSError as error:
                raise PgcError(f"the store cannot be opened ({error.strerror})") from None
            sql.event.listen(self.engine, "connect", _durable)
        try:
            with self.writing() as db:
                migrate(db)
        except sql.exc.SQLAlchemyError as error:
            self.close()
            reason = first_line(getattr(error, "orig", None) or error)
            away = isinstance(error, sql.exc.OperationalError) and not self.is_sqlite
            kind = Unreachable if away else PgcError
            raise kind(f"the store cannot be opened ({reason})") from None
        except PgcError:
            self.close()
            raise

    @property
    def path(self) -> Path | None:
        """The file of an SQLite store; None for PostgreSQL."""
        return Path(str(self.engine.url.database)) if self.is_sqlite else None

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """Opens a session in which each statement sees what is committed."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """Opens one transaction that writes."""
        if not self.is_sqlite:
            with self.engine.begin() as db:
                yield db
            return
        # This takes the write lock first: a transaction that begins by reading may get it too late.
        with self._writing, self.reading() as db, explicit(db, "BEGIN IMMEDIATE"):
            yield db

    @contextmanager
    def asked_for(self) -> Iterator[None]:
        """Makes the groups of other processes wait while this one wants to write.

        SQLite's lock is not fair: a front end that is always busy would keep the process that
        updates out for seconds. Does nothing with PostgreSQL.
        """
        if self.path is None:
            yield
            return
        with _opened(self._turn) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def give_way(self) -> None:
        """Waits a little, if another process wants to write (`asked_for`)."""
        if self.path is None:
            return
        end = time.monotonic() + GIVES_WAY
        with _opened(self._turn) as file:
            while time.monotonic() < end:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return
                except OSError:
                    time.sleep(0.002)

    @property
    def _turn(self) -> str:
        return f"{self.path}.turn"

    def checkpoint(self) -> None:
        """Moves SQLite's log into the database and empties it; does nothing with PostgreSQL.

        What was deleted is then not in the log either.
        """
        if self.is_sqlite:
            with self._writing, self.reading() as db:
                # it does not wait for readers: the log is then emptied the next time
                db.exec_driver_sql("PRAGMA busy_timeout = 100")
                try:
                    db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                finally:
                    db.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY}")

    @property
    def shown(self) -> str:
        """The store's address for people, without a password, which may be a parameter too."""
        return self.engine.url.set(query={}).render_as_string().replace("+psycopg", "")

    def size(self) -> int:
        """Returns how many bytes the store takes on its disk."""
        with self.reading() as db:
            if not self.is_sqlite:
                query = sql.text("SELECT pg_database_size(current_database())")
                return int(db.execute(query).scalar_one())
            pages = db.exec_driver_sql("PRAGMA page_count").scalar_one()
            return int(pages) * int(db.exec_driver_sql("PRAGMA page_size").scalar_one())

    def close(self) -> None:
        """Closes all connections of this process."""
        self.engine.dispose()


@contextmanager
def explicit(db: sql.Connection, begin: str) -> Iterator[sql.Connection]:
    """Opens a transaction in a session that otherwise commits each statement by itself."""
    db.exec_driver_sql(begin)
    try:
        yield db
    except BaseException:
        db.exec_driver_sql("ROLLBACK")
        raise
    db.exec_driver_sql("COMMIT")


def sqlite_url(path: Path) -> str:
    """Returns the address of an SQLite file."""
    return f"sqlite:///{path}"


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def driver_url(url: str) -> str:
    """Returns the address of a store with the name of the driver that SQLAlchemy needs."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def _durable(connection: Any, _: Any) -> None:
    """Sets up a connection so that commits are on disk and what is deleted is overwritten."""
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "secure_delete = ON",
        f"busy_timeout = {BUSY}",
        "journal_size_limit = 16777216",
    ):
        connection.execute(f"PRAGMA {pragma}")
