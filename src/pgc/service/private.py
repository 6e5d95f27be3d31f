"""Files of the service that only its own user may read, whatever the umask: store, key, secret."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from pgc.errors import PgcError

STORE = "PGC_STORE"
"""The environment variable that can hold the address of a store."""
SHORTEST = 16
"""Characters of an operator's secret, at least: openssl rand -hex 32 prints 64."""
SECRET = "PGC_OPERATOR_SECRET"
"""The environment variable that can hold the operator's secret."""


def from_environment(name: str) -> str | None:
    """Returns the environment variable NAME, or what is in the file that NAME_FILE names, which is
    where containers have their secrets; None if neither is set.
    """
    given, file = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if given is not None and file is not None:
        raise PgcError(f"${name} and ${name}_FILE are both set: which of them counts?")
    if given is not None:
        if not given.strip():
            raise PgcError(f"${name} is empty; unset it, or give it a value")
        return given.strip()  # a secret often ends with a newline
    if file is None:
        return None
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PgcError(f"cannot read {file}, which ${name}_FILE names ({error})") from None
    if not found:
        raise PgcError(f"{file}, which ${name}_FILE names, is empty")
    return found


def make_private(path: Path) -> None:
    """Makes an empty file if there is none, and lets nobody but its owner read or write it."""
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if os.fstat(file).st_uid == os.geteuid():
            os.fchmod(file, 0o600)
    finally:
        os.close(file)


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keeps other processes from making files in this folder at the same time, so that front ends
    which are started together have the same ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def operator_secret(folder: Path) -> str:
    """Returns the operator's secret: $PGC_OPERATOR_SECRET, or what is in FOLDER/operator.secret,
    which is made if it is missing.
    """
    if given := from_environment(SECRET):
        if len(given) < SHORTEST:
            raise PgcError(
                f"the operator's secret has fewer than {SHORTEST} characters (${SECRET})"
            )
        return given
    path = folder / "operator.secret"
    with only_one(folder):
        make_private(path)
        found = path.read_text().strip()
        if not found:
            found = secrets.token_urlsafe(32)
            path.write_text(found + "\n")
    return found
