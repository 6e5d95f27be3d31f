"""The budget of one device, on its disk: what was charged, and the exact bytes that were paid for.

    create(path, ε)             once in the life of a device; refuses if the file exists
    open(path)                  refuses a file that is missing, damaged, or another program's
    reserve(offer, blank)       charges for an offer and stores a report that says nothing
    seal(offer, report)         puts the report in its place, once; returns the bytes that may leave

**Guarantee.** The ε of all reports that were ever returned is at most the limit, whichever process
is killed and whenever, and whoever else uses the same file: charge and bytes are one transaction of
SQLite, on the disk (synchronous = EXTRA) before `reserve` returns. One offer has one answer: bytes
are returned only when their row is *sealed*, and a sealed row never changes. So a device charges
before it touches private data, and after a crash at any point a retry returns what is stored: no
new randomness, no new charge. Amounts are whole nano-ε, so a sum is exact.

A ledger that went back in time, because the file was put back from a copy, is refused: while it is
open by what this process remembers, and afterwards by the mark that outlives it (`marker.py`), for
a device that has one. What nothing here can see is a copy of the whole disk. And no thread of a
process may open and close the file by itself while a call runs in another: that drops POSIX locks.
docs/threat-model.md.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from pgc.device.ledger_file import (
    APPLICATION,
    LedgerError,
    connect,
    explained,
    make_durable,
    make_tables,
    migrate,
    refuse_foreign,
)
from pgc.device.marker import Mark, Marker, device_hash, sync_folder
from pgc.errors import BudgetSpent, PgcError
from pgc.randomise.budget import epsilon_text, nano_of, not_enough

Result = TypeVar("Result")


class OtherOffer(PgcError):
    """Another offer had this number before."""


class Balance(NamedTuple):
    """Limit, spent and left, in nano-ε."""

    most: int
    spent: int
    reports: int
    untimed: int = 0
    """How many of the reports left without waiting for the end of a slot."""

    @property
    def left(self) -> int:
        """What can still be spent."""
        return self.most - self.spent


class Ledger:
    """The budget of one device, in an SQLite file (the module's docstring states the guarantee).

    It belongs to one thread of one process; other threads and processes open the file themselves.
    """

    def __init__(self, connection: sqlite3.Connection, path: str | os.PathLike[str]) -> None:
        self._connection, self._process, self._busy = connection, os.getpid(), False
        self._path, self._file = Path(path).resolve(), _file_of(path)
        row = connection.execute("SELECT spent, identity, device FROM budget").fetchone()
        self._spent, self._identity = row[0], row[1].hex()
        self._marker = Marker.of(row[2]) if row[2] else None

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], epsilon: float, *, device_id: str | None = None
    ) -> Ledger:
        """Makes a new ledger with a lifetime limit, which nothing here can raise.

        With `device_id`, a name that this device alone has, a mark is left that outlives the
        ledger: where it is found, no second one is made.
        """
        most = nano_of(epsilon)
        if most < 1:
            raise PgcError(f"a ledger needs a limit of at least one nano-ε, not {epsilon:g}")
        device = b"" if device_id is None else device_hash(device_id)
        if device:
            _refuse_second(Marker.of(device), path)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            os.chmod(path, 0o600)  # whatever the umask
        except FileExistsError:
            raise LedgerError(f"{path} exists; a device has one ledger for life: open it") from None
        except OSError as error:
            raise LedgerError(f"{path} cannot be created ({error.strerror})") from None
        identity = secrets.token_bytes(16)
        with explained(path):
            db = connect(path)
            try:
                make_durable(db)
                db.execute("BEGIN EXCLUSIVE")
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                make_tables(db)
                db.execute("INSERT INTO budget VALUES (1, ?, 0, ?, ?)", (most, identity, device))
                if device:
                    _mark_first(Marker.of(device), Mark(identity.hex(), 0), path)
                db.execute("COMMIT")
            except BaseException:
                db.close()
                raise
            sync_folder(Path(path).resolve().parent)
        return cls(db, path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, device_id: str | None = None) -> Ledger:
        """Opens an existing ledger. Raises `LedgerError` if the file is missing or damaged, or if
        the device's mark shows that it is an old copy.

        A new ledger is never made, and what was spent is never reset. With `device_id`, the ledger
        must belong to that device. A ledger in an earlier version of the format is migrated.
        """
        device = None if device_id is None else device_hash(device_id)
        with explained(path):
            if not Path(path).is_file():
                raise LedgerError(_about_missing(path, device))
            db = connect(path)
            refuse_foreign(db, path)
            make_durable(db)
            migrate(db)
            ledger = cls(db, path)
            ledger._refuse_old(device)
        return ledger

    @property
    def balance(self) -> Balance:
        """Limit, spent so far, and for how many reports."""

        def work(db: sqlite3.Connection) -> Balance:
            self._check(db)
            return _balance(db)

        return self._alone(work)

    @property
    def charged(self) -> tuple[int, int]:
        """Limit and spent, in nano-ε: what is read before each charge."""
        return self._alone(self._check)

    def answered(self, offer_id: int, digest: bytes) -> bytes | None:
        """Returns the bytes of an offer that was reserved before, sealed; None for a new one."""
        found = self._alone(lambda db: _row(db, offer_id, digest))
        if found is None or found.sealed:
            return None if found is None else found.report
        return self.seal(offer_id, digest)

    def reserve(
        self, offer_id: int, digest: bytes, cost: int, blank: bytes, *, slot: int = 0
    ) -> bytes | None:
        """Charges `cost` for an offer, stores `blank` as its report for now, and returns None.

        If the offer was reserved before, nothing is charged: its stored report is sealed and
        returned, and may leave. Raises `BudgetSpent` if the offer costs more than is left.
        """
        if cost < 1:
            raise PgcError("a report costs at least one nano-ε")

        def work(db: sqlite3.Connection) -> bytes | None:
            if _row(db, offer_id, digest) is not None:
                return _seal(db, offer_id, None)
            most, spent = self._check(db)
            if cost > most - spent:
                raise BudgetSpent(not_enough(cost, spent, most))
            db.execute(
                "INSERT INTO reports VALUES (?, ?, ?, ?, 0, ?)",
                (_key(offer_id), digest, cost, blank, slot),
            )
            db.execute("UPDATE budget SET spent = spent + ?", (cost,))
            return None

        return self._alone(lambda db: self._commit(db, work))

    def seal(self, offer_id: int, digest: bytes, report: bytes | None = None) -> bytes:
        """Returns the bytes that answer a reserved offer, now and whenever it is asked again.

        `report` takes the place of what is stored, unless that was sealed before.
        """

        def work(db: sqlite3.Connection) -> bytes:
            if _row(db, offer_id, digest) is None:
                raise LedgerError(f"offer {offer_id:016x} was not reserved; nothing was released")
            return _seal(db, offer_id, report)

        return self._alone(lambda db: self._commit(db, work))

    def close(self) -> None:
        """Closes the file. Nothing is lost without it."""
        self._connection.close()

    def _alone(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Calls `work` with the connection, unless another call is under way; returns its result.

        Raises `LedgerError` in a forked child, and in a signal handler that interrupts a call. An
        exception from outside (a watchdog, Ctrl-C) may interrupt a call between any two
        instructions. So a flag is used and not a lock, which could stay locked for ever, and each
        call first rolls back what an interrupted one may have left open.
        """
        if os.getpid() != self._process:
            raise LedgerError(
                "this ledger was opened before a fork; open it again in the new process"
            )
        if self._busy:
            raise LedgerError("this ledger is in the middle of another call; nothing was released")
        try:
            self._busy = True
            with explained("the ledger"):
                self._connection.rollback()
                return work(self._connection)
        finally:
            self._busy = False

    def _commit(
        self, db: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]
    ) -> Result:
        """Runs `work` in one transaction; returns its result once commit and mark are on disk."""
        try:
            # one writer from here: two processes cannot both spend what is left
            db.execute("BEGIN IMMEDIATE")
            made = work(db)
            _, spent = self._check(db)
            db.execute("COMMIT")
            self._spent = spent
            if self._marker is not None:
                self._marker.raise_to(Mark(self._identity, spent))
            return made  # only now
        finally:
            db.rollback()  # what was not committed

    def _check(self, db: sqlite3.Connection) -> tuple[int, int]:
        """Returns limit and spent; refuses a ledger that had spent more when it was last seen.

        It takes as long with many reports as with few.
        """
        if _file_of(self._path) != self._file:
            raise LedgerError(
                f"{self._path} was replaced by another file while it was in use; nothing was "
                "released"
            )
        most, spent = db.execute("SELECT most, spent FROM budget").fetchone()
        if spent < self._spent:
            raise LedgerError(
                f"{self._path} went back in time: it says that {epsilon_text(spent)} is spent, "
                f"and it was {epsilon_text(self._spent)}; nothing was released"
            )
        self._spent = spent
        return most, spent

    def _refuse_old(self, device: bytes | None) -> None:
        """Compares a ledger that was opened with the mark of its device."""
        (owner,) = self._connection.execute("SELECT device FROM budget").fetchone()
        if device is not None and owner != device:
            if owner:
                raise LedgerError(f"{self._path} is the ledger of another device")
            raise LedgerError(
                f"{self._path} was made without a device_id, and cannot be given one: open it "
                "without"
            )
        if self._marker is None:
            return
        mark = self._marker.read()
        if mark is None:
            raise LedgerError(self._marker.missing)
        if mark.identity != self._identity:
            raise LedgerError(f"{self._path} is not the ledger that this device was given")
        if mark.spent > self._spent:
            raise LedgerError(
                f"{self._path} went back in time: it says that {epsilon_text(self._spent)} is "
                f"spent, and "
                f"this device's mark says {epsilon_text(mark.spent)}"
            )


def look(path: str | os.PathLike[str]) -> Balance:
    """Returns the balance of a ledger of any known version, without changing the ledger.

    It checks that the file is a whole ledger whose charges add up, but not the device's mark.
    """
    with explained(path):
        if not Path(path).is_file():
            raise LedgerError(f"there is no ledger {path}")
        db = connect(path)
        try:
            version = refuse_foreign(db, path)
            return _balance(db, timed=version > 1)
        finally:
            db.close()


def _balance(db: sqlite3.Connection, timed: bool = True) -> Balance:
    slots = "sum(slot = 0)" if timed else "count(*)"
    return Balance(
        *db.execute(
            "SELECT most, spent, (SELECT count(*) FROM reports), "
            f"(SELECT coalesce({slots}, 0) FROM reports) FROM budget"
        ).fetchone()
    )


class _Row(NamedTuple):
    """What is stored for an offer. Its bytes may leave only when they are sealed."""

    report: bytes
    sealed: bool


def _row(db: sqlite3.Connection, offer_id: int, digest: bytes) -> _Row | None:
    row = db.execute(
        "SELECT digest, report, sealed FROM reports WHERE offer_id = ?", (_key(offer_id),)
    ).fetchone()
    if row is None:
        return None
    if row[0] != digest:
        raise OtherOffer(
            f"another offer had the number {offer_id:016x}; one number gets one report"
        )
    return _Row(row[1], bool(row[2]))


def _seal(db: sqlite3.Connection, offer_id: int, report: bytes | None) -> bytes:
    """Seals a row, with `report` in place of what is stored if it was not sealed yet."""
    key = _key(offer_id)
    if report is not None:
        db.execute("UPDATE reports SET report = ? WHERE offer_id = ? AND NOT sealed", (report, key))
    db.execute("UPDATE reports SET sealed = 1 WHERE offer_id = ?", (key,))
    (made,) = db.execute("SELECT report FROM reports WHERE offer_id = ?", (key,)).fetchone()
    stored: bytes = made
    return stored


def _refuse_second(marker: Marker, path: str | os.PathLike[str]) -> None:
    """Refuses to make a ledger for a device that has, or had, one."""
    if (mark := marker.read()) is not None:
        raise LedgerError(
            f"{path} was not made: this device has a ledger, which had spent at least "
            f"{epsilon_text(mark.spent)}; open that one. If it is lost, so is what it had left: a "
            f"new one "
            "would spend the same ε twice. (If it never sent anything, or its data are no longer "
            f"private, remove {marker.path}.)"
        )


def _mark_first(marker: Marker, mark: Mark, path: str | os.PathLike[str]) -> None:
    """Leaves the mark of a new ledger before there is one, unless the device was given another
    meanwhile.

    Who is killed between the two has a mark and no ledger, never a ledger without its mark.
    """
    marker.make(mark)
    if marker.read() != mark:
        os.unlink(path)
        _refuse_second(marker, path)


def _about_missing(path: str | os.PathLike[str], device: bytes | None) -> str:
    mark = None if device is None else Marker.of(device).read()
    if mark is None:
        return (
            f"there is no ledger {path}; pgc provision (Device.create in Python) makes one, once "
            "in the life of a device"
        )
    return (
        f"there is no ledger {path}, and this device had one that had spent at least "
        f"{epsilon_text(mark.spent)}: put that file back. A new one would be a second budget"
    )


def _file_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Returns which file has this name now."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _key(offer_id: int) -> bytes:
    return offer_id.to_bytes(8, "big")


__all__ = ["APPLICATION", "Balance", "Ledger", "LedgerError", "OtherOffer", "look"]
