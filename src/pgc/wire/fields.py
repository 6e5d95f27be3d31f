"""Reads little-endian fields of fixed size from untrusted bytes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from pgc.errors import PgcError


class Malformed(PgcError):
    """Raised for bytes that are not an offer, or not a report that answers the offer given; the
    message says why.
    """


class Reader:
    """Reads one field after another from some bytes, and allocates nothing larger than they are."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._at, self._what = data, 0, what

    def take(self, form: str) -> tuple[Any, ...]:
        """Returns the next fields. `form` describes them in the notation of `struct`."""
        form = "<" + form
        return struct.unpack(form, self._next(struct.calcsize(form)))

    def floats(self, n: int) -> np.ndarray:
        """Returns the next n float32 numbers, or raises `Malformed` if one is not finite."""
        numbers = np.frombuffer(self._next(4 * n), "<f4").astype(np.float32, copy=False)
        if not np.isfinite(numbers).all():
            raise Malformed(f"{self._what}: a number is not finite")
        return numbers

    def end(self) -> None:
        """Refuses bytes that follow the last field."""
        if self._at != len(self._data):
            raise Malformed(f"{self._what}: {len(self._data) - self._at} bytes too many")

    def _next(self, n: int) -> bytes:
        if n > len(self._data) - self._at:
            raise Malformed(
                f"{self._what}: ends after {len(self._data)} bytes, "
                f"{self._at + n - len(self._data)} too early"
            )
        self._at += n
        return self._data[self._at - n : self._at]


def check(holds: bool, reason: str) -> None:
    """Raises `Malformed` with this reason unless the condition holds."""
    if not holds:
        raise Malformed(reason)
