"""The file of a ledger: its tables in each version, how it is opened, and what is refused."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgc.errors import PgcError

APPLICATION = 0x50474331  # "PGC1"
SCHEMA_VERSION = 2
SCHEMAS = {
    1: """
CREATE TABLE budget (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  most INTEGER NOT NULL CHECK (most > 0),
  spent INTEGER NOT NULL CHECK (spent BETWEEN 0 AND most)
) STRICT;
CREATE TABLE reports (
  offer_id BLOB PRIMARY KEY CHECK (length(offer_id) = 8),
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  cost INTEGER NOT NULL CHECK (cost > 0),
  report BLOB NOT NULL
) STRICT;
""",
    2: """
CREATE TABLE budget (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  most INTEGER NOT NULL CHECK (most > 0),
  spent INTEGER NOT NULL CHECK (spent BETWEEN 0 AND most),
  identity BLOB NOT NULL CHECK (length(identity) = 16),
  device BLOB NOT NULL CHECK (length(device) IN (0, 32))
) STRICT;
CREATE TABLE reports (
  offer_id BLOB PRIMARY KEY CHECK (length(offer_id) = 8),
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  cost INTEGER NOT NULL CHECK (cost > 0),
  report BLOB NOT NULL,
  sealed INTEGER NOT NULL CHECK (sealed IN (0, 1)),
  slot INTEGER NOT NULL CHECK (slot >= 0)
) STRICT;
""",
}
"""The tables of each version. `slot` is in milliseconds, 0 where an answer waited for no slot."""
PATIENCE = 30.0
"""Seconds to wait for another process that is charging."""


class LedgerError(PgcError):
    """The ledger cannot be used. Nothing was returned, and nothing may be sent."""


def connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Opens a file that exists; a transaction begins where one is begun."""
    uri = f"{Path(path).resolve().as_uri()}?mode=rw"  # never create
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def make_durable(db: sqlite3.Connection) -> None:
    """Sets up a connection so that a commit is on disk when it returns.

    The removal of the journal is synchronised too. Between transactions a ledger is one file.
    """
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("PRAGMA fullfsync = ON")
    db.execute("PRAGMA trusted_schema = OFF")


def refuse_foreign(db: sqlite3.Connection, path: str | os.PathLike[str]) -> int:
    """Returns the version of a whole ledger whose sum is right; refuses anything else."""
    version: int
    application, version = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        empty = os.path.getsize(path) == 0
        raise LedgerError(
            f"{path} is "
            + (
                "empty: its creation was cut short, or it was damaged"
                if empty
                else "not a pgc ledger"
            )
        )
    if version not in SCHEMAS:
        raise LedgerError(
            f"{path} is a ledger of version {version}; this is pgc for version {SCHEMA_VERSION}"
        )
    found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
    if found != set(statements(version)):
        raise LedgerError(f"{path} is a ledger whose tables were changed")
    if [row[0] for row in db.execute("PRAGMA integrity_check")] != ["ok"]:
        raise LedgerError(f"{path} is damaged")
    rows = db.execute(
        "SELECT spent = (SELECT coalesce(sum(cost), 0) FROM reports) FROM budget"
    ).fetchall()
    if rows != [(1,)]:
        raise LedgerError(f"{path} is damaged: what was spent is not the sum of what was charged")
    return version


@contextmanager
def explained(what: str | os.PathLike[str]) -> Iterator[None]:
    """Turns SQLite's errors (a full or read-only disk, a lock, damage) into a `LedgerError` of one
    line.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(f"{what} cannot be used ({error}); nothing was released") from None


def make_tables(db: sqlite3.Connection) -> None:
    """Makes the tables of this version, in a transaction that is under way."""
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    for statement in statements(SCHEMA_VERSION):
        db.execute(statement)


def migrate(db: sqlite3.Connection) -> None:
    """Brings a ledger of version 1 to this one, in one transaction.

    Its reports may all have left, without waiting for a slot: they are sealed.
    """
    db.execute("BEGIN EXCLUSIVE")
    try:
        if db.execute("PRAGMA user_version").fetchone()[0] == 1:
            db.execute("ALTER TABLE budget RENAME TO old_budget")
            db.execute("ALTER TABLE reports RENAME TO old_reports")
            make_tables(db)
            identity = secrets.token_bytes(16)
            db.execute(
                "INSERT INTO budget SELECT one, most, spent, ?, x'' FROM old_budget", (identity,)
            )
            db.execute(
                "INSERT INTO reports SELECT offer_id, digest, cost, report, 1, 0 FROM old_reports"
            )
            db.execute("DROP TABLE old_budget")
            db.execute("DROP TABLE old_reports")
            db.execute("COMMIT")
    finally:
        db.rollback()


def statements(version: int) -> list[str]:
    """Returns the statements that make the tables of a version."""
    return [statement.strip() for statement in SCHEMAS[version].split(";\n")[:-1]]
