"""HTTP/1.1 that does not wait for ever: uvicorn's fast parser has no limit on what surrounds a
body, and takes its time.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_AROUND = 2**16
"""Bytes of a request that are not its body (request line, headers, trailers, marks of chunks), give
or take one read."""
SECONDS = 60.0
"""For a request to arrive whole."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not end, or has too much around its body."""

    _around = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting for the rest of a request."""
        self._wait(False)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Starts the clock of a request."""
        self._around = 0
        self._wait(True)
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """A part of the body, which the application limits."""
        self._around -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has arrived."""
        self._wait(False)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a request, up to a limit."""
        self._around += len(data)
        super().data_received(data)
        if self._around > MOST_AROUND and self._late is not None:
            self._give_up()

    def _wait(self, on: bool) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(SECONDS, self._give_up) if on else None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()
