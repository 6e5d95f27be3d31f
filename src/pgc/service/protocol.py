"""HTTP/1.1 that does not wait for ever: uvicorn's fast parser has no limit on a request's head, and takes its time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 2**16
"""Bytes, give or take one read."""
SECONDS = 30.0
"""For the first head of a connection to arrive."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers do not end."""

    _in_head, _head = True, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._late = self.loop.call_later(SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._late.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """And ends."""
        self._in_head = False
        self._late.cancel()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes of a head, or of a body, which the application limits."""
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._give_up()

    def _give_up(self) -> Any:
        if not self.transport.is_closing():
            self.transport.abort()
