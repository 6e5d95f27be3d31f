"""The store that `pgc serve`, `pgc tokens` and `pgc replay` work on, and what can go
wrong with it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pgc.errors import PgcError, require
from pgc.service.schema import Store, sqlite_url

STORE = "PGC_STORE"


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Turns an error of a store or a folder into a `PgcError` of one line."""
    sqlalchemy = require("sqlalchemy", "service")
    try:
        yield
    except sqlalchemy.exc.DBAPIError as error:
        raise PgcError(
            f"the store cannot be used ({str(error.orig).strip().splitlines()[0]})"
        ) from None
    except OSError as error:
        raise PgcError(
            f"cannot use {error.filename or 'a file'} ({error.strerror or error})"
        ) from None
    except (ValueError, EOFError) as error:
        raise PgcError(f"cannot read what was given ({str(error).partition(chr(10))[0]})") from None


def store_url(folder: Path, store: str | None, *, make: bool = False) -> str:
    """Returns the address of the store: what is given, or $PGC_STORE, or the folder's own."""
    url = store or os.environ.get(STORE)
    if url:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        return url
    if make:
        folder.mkdir(parents=True, exist_ok=True)
    elif not (folder / "store.db").is_file():
        raise PgcError(f"there is no service in {folder}; pgc serve {folder} makes one")
    return sqlite_url(folder / "store.db")


def open_store(folder: Path, store: str | None) -> Store:
    """Opens the store of a service that exists."""
    return Store(store_url(folder, store))
