"""A mark that outlives a device's ledger: that this device has one, and how much it had spent.

A ledger can be deleted, or put back from a backup; then its budget could be spent twice. The mark
lies elsewhere, in the state folder of the system, under a name that the application gives (a serial
number, say): not under the ledger's path, nor in the ledger. It is read when the ledger is created
or opened, and written with every charge, before a report may leave.

What it cannot see: a copy of the whole disk, mark included, that is put back or used twice.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

from pgc.device.ledger_file import LedgerError
from pgc.errors import PgcError

FORM = "{identity} {spent:020d}\n"
"""A mark's text. It is always of the same length, so that it is overwritten in place."""
STATE = "PGC_STATE"
"""The environment variable that names another state folder."""


class Mark(NamedTuple):
    """What a mark says."""

    identity: str
    """Of the ledger, in hexadecimal digits."""
    spent: int
    """What the ledger had spent, at least, in nano-ε."""


class Marker:
    """The mark of one device, in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, device: bytes) -> Marker:
        """Returns the mark of the device with this `device_hash`."""
        return cls(state_folder() / device.hex())

    @property
    def missing(self) -> str:
        """Says that a ledger must have this mark, and that it is gone."""
        return (
            f"this device's ledger has a mark, and {self.path} is not there: without it nobody can "
            f"see that the ledger was put back from a copy. Put the mark back; ${STATE} names "
            "another folder"
        )

    def read(self) -> Mark | None:
        """Returns what the mark says; None where there is none."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            identity, spent = text.decode().split()
            return Mark(identity, int(spent))
        except ValueError:
            raise LedgerError(
                f"{self.path} is damaged: it does not say which ledger it marks"
            ) from None

    def make(self, mark: Mark) -> bool:
        """Makes the mark, on the disk; returns False if there is one already."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._write(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return False
        sync_folder(self.path.parent)
        return True

    def raise_to(self, mark: Mark) -> None:
        """Writes what was spent, on the disk, unless the mark says as much or more already.

        Of two processes that do this at once, the one with less may come last. The next charge
        mends that.
        """
        before = self.read()
        if before is None:
            raise LedgerError(self.missing)
        if before.spent < mark.spent:
            self._write(mark, os.O_WRONLY)

    def _write(self, mark: Mark, how: int) -> None:
        file = os.open(self.path, how, 0o600)
        try:
            os.write(file, FORM.format(identity=mark.identity, spent=mark.spent).encode())
            os.fsync(file)
        finally:
            os.close(file)


def device_hash(device_id: str) -> bytes:
    """Returns what stands for a device's name in its ledger and in the name of its mark."""
    if not device_id:
        raise PgcError("a device_id is a name that this device alone has, such as a serial number")
    return hashlib.sha256(b"pgc device " + device_id.encode()).digest()


def state_folder() -> Path:
    """Returns the folder of all marks: `$PGC_STATE`, or where the system keeps such things."""
    if named := os.environ.get(STATE):
        return Path(named)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "pgc"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "pgc"
    common = Path("/var/lib/pgc/devices")  # for all users: a device has one budget, whoever runs it
    if os.access(common if common.exists() else common.parent.parent, os.W_OK):
        return common
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pgc"


def sync_folder(folder: Path) -> None:
    """Makes sure that the name of a new file is on the disk as well."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
