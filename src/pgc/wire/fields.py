"""Reading fields of fixed size from bytes that nobody has to trust. Little-endian throughout."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from pgc.errors import PgcError


class Malformed(PgcError):
    """Bytes that are no offer, or no report of this offer; the message says why."""


class Reader:
    """Takes fields from the front of some bytes. Allocates nothing that is larger than they are."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._at, self._what = data, 0, what

    def take(self, form: str) -> tuple[Any, ...]:
        """The next fields, in `struct`'s notation."""
        form = "<" + form
        return struct.unpack(form, self._next(struct.calcsize(form)))

    def floats(self, n: int) -> np.ndarray:
        """The next n numbers of 32 bits, all finite."""
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
    """Refuse with a reason."""
    if not holds:
        raise Malformed(reason)
