"""A folder of results, in which a file is written whole or not at all.

One process at a time can work on it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pgc.errors import PgcError


@dataclass(frozen=True)
class Folder:
    """The folder in which a command leaves its results."""

    path: Path

    @staticmethod
    def make(path: Path, *inner: str) -> None:
        """Makes a folder with the folders `inner` in it. Refuses a path that is not empty."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise PgcError(
                    f"{path} exists and is not empty; choose another --out, or continue it with "
                    f"--resume {path}"
                )
            for name in ("", *inner):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PgcError(
                f"cannot write to {path} ({error.strerror}); choose another --out"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds a lock on the folder, or raises `PgcError` if another process holds it."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PgcError(
                    f"another process is at work on {self.path}; wait for it, or end it first"
                ) from None
            yield
        finally:
            os.close(handle)

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers in summary.json; infinite values are None."""
        return self.read_json("summary.json")

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file, or nothing."""
        temporary = self.path / (name + ".tmp")
        try:
            temporary.write_bytes(data)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
        except OSError as error:
            raise PgcError(
                f"cannot write {self.path / name} ({error.strerror}); fix that, then continue "
                "with --resume"
            ) from None

    def write_json(self, name: str, values: dict[str, Any]) -> None:
        """Writes values as JSON; infinite or undefined numbers become null."""
        self.write(name, (json.dumps(finite(values), indent=2, ensure_ascii=False) + "\n").encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """Returns what `write_json` wrote when the command ended; infinite values are None."""
        try:
            loaded: dict[str, Any] = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise PgcError(
                f"{self.path} has no {name} that can be read; if its command has not ended, "
                f"continue it with --resume {self.path}"
            ) from None
        return loaded

    def write_arrays(
        self, name: str, arrays: dict[str, np.ndarray], notes: dict[str, str] | None = None
    ) -> None:
        """Writes named arrays, with notes, as safetensors."""
        self.write(name, save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, notes))

    def read_arrays(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """Returns what `write_arrays` wrote; raises `PgcError` if it is missing or damaged."""
        path = self.path / name
        if not path.exists():
            raise PgcError(f"{path} does not exist; is this a folder that pgc made?")
        try:
            with safe_open(path, framework="numpy") as file:
                names = list(file.keys())  # the file itself cannot be iterated
                return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
        except (SafetensorError, OSError, ValueError) as error:
            raise PgcError(f"{path} is damaged or truncated ({error}); start a new run") from None


def new_path(stem: str) -> Path:
    """Returns a path runs/<stem>-<time> that is not taken."""
    stem = f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    path, count = Path("runs") / stem, 1
    while path.exists():
        count += 1
        path = Path("runs") / f"{stem}-{count}"
    return path


def finite(value: Any) -> Any:
    """Returns `value` with every infinite or undefined number replaced by None."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
