"""The budget of one device, on its disk: what was charged, and the exact bytes that were paid for.

    create(path, ε)       once in the life of a device; refuses if the file exists
    open(path)            refuses a file that is missing, damaged, or another program's
    pay(offer, report)    the bytes that answer an offer: those stored, or these, once charged

**Guarantee.** The ε of all reports that were ever returned is at most the limit, whichever process
is killed and whenever, and whoever else uses the same file: charge and bytes are one transaction of
SQLite, on the disk (synchronous = EXTRA) before `pay` returns. A repeated offer gets the stored
bytes: no new randomness, no new charge. Amounts are whole nano-ε, so a sum is exact.

What it cannot see: that the whole file was put back to an earlier state, or copied to a second
device. And no thread of a process may open and close the file by itself while `pay` runs in
another: that drops POSIX locks. docs/threat-model.md.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from pgc.errors import BudgetSpent, PgcError
from pgc.randomise.budget import nano_of

APPLICATION = 0x50474331  # "PGC1"
SCHEMA_VERSION = 1
SCHEMA = """
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
"""
Result = TypeVar("Result")
PATIENCE = 30.0
"""Seconds to wait for another process that is charging."""


class LedgerError(PgcError):
    """The ledger cannot be used. Nothing was returned, and nothing may be sent."""


class OtherOffer(PgcError):
    """Another offer had this number before."""


class Balance(NamedTuple):
    """Limit, spent and left, in nano-ε."""

    most: int
    spent: int
    reports: int

    @property
    def left(self) -> int:
        """What can still be spent."""
        return self.most - self.spent


class Ledger:
    """See the module. It belongs to one thread of one process; others open the file themselves."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._process, self._busy = connection, os.getpid(), False

    @classmethod
    def create(cls, path: str | os.PathLike[str], epsilon: float) -> Ledger:
        """A new ledger with a lifetime limit, which nothing here can raise."""
        most = nano_of(epsilon)
        if most < 1:
            raise PgcError(f"a ledger needs a limit of at least one nano-ε, not {epsilon:g}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise LedgerError(f"{path} exists; a device has one ledger for life: open it") from None
        except OSError as error:
            raise LedgerError(f"{path} cannot be created ({error.strerror})") from None
        with _explained(path):
            db = _connect(path)
            _make_durable(db)
            db.execute("BEGIN EXCLUSIVE")
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for statement in SCHEMA.split(";\n")[:-1]:
                db.execute(statement)
            db.execute("INSERT INTO budget VALUES (1, ?, 0)", (most,))
            db.execute("COMMIT")
        _sync_folder(Path(path).resolve().parent)
        return cls(db)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger of this device. Whatever is wrong with the file, it never starts from zero."""
        with _explained(path):
            if not Path(path).is_file():
                raise LedgerError(
                    f"there is no ledger {path}; Ledger.create makes one, once in the life of a "
                    "device"
                )
            db = _connect(path)
            _refuse_foreign(db, path)
            _make_durable(db)
        return cls(db)

    @property
    def balance(self) -> Balance:
        """Limit, spent so far, and for how many reports."""
        return self._alone(_balance)

    def stored(self, offer_id: int, digest: bytes) -> bytes | None:
        """Returns the bytes that answered this offer, or None."""
        return self._alone(lambda db: _stored(db, offer_id, digest))

    def pay(self, offer_id: int, digest: bytes, cost: int, report: bytes) -> bytes:
        """Charge for a report that was drawn, and store it: then it may leave.

        If the offer was answered before, that answer.
        """
        if cost < 1:
            raise PgcError("a report costs at least one nano-ε")
        return self._alone(lambda db: _pay(db, offer_id, digest, cost, report))

    def close(self) -> None:
        """Closes the file. Nothing is lost without it."""
        self._connection.close()

    def _alone(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """One call at a time: not in a child process, not from a signal handler while a call is
        under way.

        An exception from outside (a watchdog, Ctrl-C) may come between any two instructions: hence
        a flag and no lock, which could stay taken, and a rollback first, of what an interrupted
        call may have left open.
        """
        if os.getpid() != self._process:
            raise LedgerError(
                "this ledger was opened before a fork; open it again in the new process"
            )
        if self._busy:
            raise LedgerError("this ledger is in the middle of another call; nothing was released")
        try:
            self._busy = True
            with _explained("the ledger"):
                self._connection.rollback()
                return work(self._connection)
        finally:
            self._busy = False


def _pay(db: sqlite3.Connection, offer_id: int, digest: bytes, cost: int, report: bytes) -> bytes:
    try:
        # one writer from here: two processes cannot both spend what is left
        db.execute("BEGIN IMMEDIATE")
        before = _stored(db, offer_id, digest)
        if before is not None:
            return before
        balance = _balance(db)
        if cost > balance.left:
            raise BudgetSpent(
                f"this costs {words(cost)} and {words(balance.left)} of {words(balance.most)} is "
                "left"
            )
        db.execute(
            "INSERT INTO reports VALUES (?, ?, ?, ?)", (_key(offer_id), digest, cost, report)
        )
        db.execute("UPDATE budget SET spent = spent + ?", (cost,))
        db.execute("COMMIT")
        return report  # only now: the transaction is on the disk
    finally:
        db.rollback()  # what was not committed


def _balance(db: sqlite3.Connection) -> Balance:
    return Balance(
        *db.execute("SELECT most, spent, (SELECT count(*) FROM reports) FROM budget").fetchone()
    )


def _stored(db: sqlite3.Connection, offer_id: int, digest: bytes) -> bytes | None:
    row = db.execute(
        "SELECT digest, report FROM reports WHERE offer_id = ?", (_key(offer_id),)
    ).fetchone()
    if row is None:
        return None
    if row[0] != digest:
        raise OtherOffer(
            f"another offer had the number {offer_id:016x}; one number gets one report"
        )
    report: bytes = row[1]
    return report


def words(nano: int) -> str:
    """Says a number of nano-ε for people to read."""
    return f"ε = {nano / 10**9:.9g}"


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    uri = f"{Path(path).resolve().as_uri()}?mode=rw"  # never create
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def _make_durable(db: sqlite3.Connection) -> None:
    """One file at rest, and a commit that is on the disk when it returns: the journal's removal is
    synchronised too.
    """
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("PRAGMA fullfsync = ON")
    db.execute("PRAGMA trusted_schema = OFF")


def _refuse_foreign(db: sqlite3.Connection, path: str | os.PathLike[str]) -> None:
    """Only a whole ledger of this version, whose sum is right."""
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
    if version != SCHEMA_VERSION:
        raise LedgerError(
            f"{path} is a ledger of version {version}; this is pgc for version {SCHEMA_VERSION}"
        )
    found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
    if found != {statement.strip() for statement in SCHEMA.split(";\n")[:-1]}:
        raise LedgerError(f"{path} is a ledger whose tables were changed")
    if [row[0] for row in db.execute("PRAGMA integrity_check")] != ["ok"]:
        raise LedgerError(f"{path} is damaged")
    rows = db.execute(
        "SELECT spent = (SELECT coalesce(sum(cost), 0) FROM reports) FROM budget"
    ).fetchall()
    if rows != [(1,)]:
        raise LedgerError(f"{path} is damaged: what was spent is not the sum of what was charged")


@contextmanager
def _explained(what: str | os.PathLike[str]) -> Iterator[None]:
    """SQLite's errors (a full or read-only disk, a lock, damage) as one line.

    Nothing is returned past them.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(f"{what} cannot be used ({error}); nothing was released") from None


def _sync_folder(folder: Path) -> None:
    """So that the new file's name is on the disk as well."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _key(offer_id: int) -> bytes:
    return offer_id.to_bytes(8, "big")
