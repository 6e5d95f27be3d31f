"""The tables of a store, and their migrations: in SQLite, or in PostgreSQL for several front ends.

| table | holds |
|---|---|
| models | a name, a config, and how many reports were accepted |
| versions | states of the aggregator, each with the place of the last report that went into it |
| tokens | SHA-256 of each token, how many reports it is still good for, whether it was revoked |
| offers | those that are open: number, token, model, version, time. **Deleted when answered** |
| reports | what was accepted, in order: its offer's number, its version, the payload |

So nothing links a report to the token that sent it, because the row that did is deleted. Addresses
of devices and times of their requests are not stored.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from pgc.errors import PgcError
from pgc.service.private import make_private

metadata = sql.MetaData()
schema = sql.Table("schema_version", metadata, sql.Column("version", sql.Integer, nullable=False))
models = sql.Table(
    "models",
    metadata,
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("config", sql.Text, nullable=False),
    # a lock on this row makes the order of reports that of the commits
    sql.Column("accepted", sql.BigInteger, nullable=False),
)
versions = sql.Table(
    "versions",
    metadata,
    sql.Column("model", sql.String(64), primary_key=True),
    sql.Column("version", sql.BigInteger, primary_key=True),
    sql.Column("applied", sql.BigInteger, nullable=False),  # the last report that went into it
    sql.Column("state", sql.LargeBinary, nullable=False),
    # the hour, in seconds since 1970
    sql.Column("made_at", sql.BigInteger, nullable=False, server_default="0"),
    sql.Column("restored", sql.BigInteger),  # the earlier version that it restores, if any
)
tokens = sql.Table(
    "tokens",
    metadata,
    sql.Column("hash", sql.LargeBinary(32), primary_key=True),
    sql.Column("left", sql.Integer, nullable=False),
    sql.Column("revoked", sql.Boolean, nullable=False),
)
offers = sql.Table(
    "offers",
    metadata,
    sql.Column("offer_id", sql.LargeBinary(8), primary_key=True),
    sql.Column("model", sql.String(64), nullable=False),
    sql.Column("version", sql.BigInteger, nullable=False),
    sql.Column("expires_at", sql.BigInteger, nullable=False),
    sql.Column("token", sql.LargeBinary(32), index=True),
)
reports = sql.Table(
    "reports",
    metadata,
    sql.Column("model", sql.String(64), primary_key=True),
    sql.Column("seq", sql.BigInteger, primary_key=True),
    sql.Column("offer_id", sql.LargeBinary(8), nullable=False, unique=True),
    sql.Column("version", sql.BigInteger, nullable=False),
    sql.Column("payload", sql.LargeBinary, nullable=False),
)
MIGRATIONS: dict[int, tuple[str, ...]] = {
    2: (  # answered offers are deleted; versions know when they were made, and what they restored
        "DELETE FROM offers WHERE answer IS NOT NULL",
        "ALTER TABLE offers DROP COLUMN answer",
        "ALTER TABLE versions ADD COLUMN made_at BIGINT DEFAULT '0' NOT NULL",
        "ALTER TABLE versions ADD COLUMN restored BIGINT",
    ),
}
"""The statements that make a store of each version from one of the version before. They are plain
SQL, because they must not change when the tables above do."""
SCHEMA_VERSION = max(MIGRATIONS)
BUSY = 30_000
"""Milliseconds for which SQLite waits for another process."""
LOCK = 0x706763
"""The first key of pgc's advisory locks in PostgreSQL: (LOCK, 0) is held while tables are made, and
(LOCK, 1) by the process that updates θ."""


PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "tcp_user_timeout": 20_000,
    "options": "-c lock_timeout=20s -c idle_in_transaction_session_timeout=30s"
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
}
"""Time limits at both ends of a PostgreSQL session: a process that hangs or is cut off in the
middle of a transaction loses its session, and with it its locks."""


class Store:
    """Connections to one database.

    `reading` sees what is committed; `writing` is one transaction, on disk when it ends.
    """

    def __init__(self, url: str) -> None:
        """Opens a store. Makes its tables if there are none, and migrates older ones.

        A store that a newer version of pgc made is refused.
        """
        if not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
            raise PgcError("a store is sqlite:///PATH or postgresql://USER@HOST/DATABASE")
        options = PATIENCE if not url.startswith("sqlite") else {}
        try:
            self.engine = sql.create_engine(
                _with_driver(url),
                pool_pre_ping=True,
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
                _migrate(db)
        except sql.exc.SQLAlchemyError as error:
            self.close()
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise PgcError(f"the store cannot be opened ({reason})") from None
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


def _with_driver(url: str) -> str:
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


def _migrate(db: sql.Connection) -> None:
    if db.dialect.name == "postgresql":  # two front ends may start at once
        db.execute(sql.text("SELECT pg_advisory_xact_lock(:a, 0)"), {"a": LOCK})
    if not sql.inspect(db).has_table(schema.name):
        metadata.create_all(db)
        db.execute(schema.insert().values(version=SCHEMA_VERSION))
        return
    found = db.execute(sql.select(schema.c.version)).scalar_one()
    if found > SCHEMA_VERSION:
        raise PgcError(
            f"the store is of version {found}, made by a newer pgc; this one knows versions up to "
            f"{SCHEMA_VERSION}"
        )
    for version in range(found + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[version]:
            db.execute(sql.text(statement))
        db.execute(schema.update().values(version=version))
