"""The store that `pgc serve`, `pgc tokens` and `pgc replay` work on, and what can go
wrong with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pgc.errors import PgcError, first_line, require
from pgc.service.database import Database, sqlite_url
from pgc.service.private import STORE, from_environment


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turns an error of a store or a folder into a `PgcError` of one line."""
    sqlalchemy = require("sqlalchemy", "service")
    try:
        yield
    except sqlalchemy.exc.DBAPIError as error:
        raise PgcError(f"the store cannot be used ({first_line(error.orig)})") from None
    except OSError as error:
        raise PgcError(
            f"cannot use {error.filename or 'a file'} ({error.strerror or error})"
        ) from None
    except (ValueError, EOFError) as error:
        raise PgcError(f"cannot read what was given ({first_line(error)})") from None


def store_url(folder: Path, store: str | None, *, make: bool = False) -> str:
    """Returns the address of the store: what is given, or $PGC_STORE, or what is in the file
    $PGC_STORE_FILE, or the folder's own.
    """
    if store:
        return store
    if url := from_environment(STORE):
        own = folder / "store.db"
        if own.is_file() and url != sqlite_url(own):
            raise PgcError(
                f"{folder} has a store of its own, and ${STORE} names another one: unset it, give "
                "--store, or another folder"
            )
        return url
    if make:
        folder.mkdir(parents=True, exist_ok=True)
    elif not (folder / "store.db").is_file():
        raise PgcError(f"there is no service in {folder}; pgc serve {folder} makes one")
    return sqlite_url(folder / "store.db")


def open_store(folder: Path, store: str | None) -> Database:
    """Opens the store of a service that exists."""
    return Database(store_url(folder, store))
