"""HTTP/1.1 with bounds: on what surrounds a body, on the time a request or an answer may take, on
connections, and on what waits to be sent. uvicorn's fast parser has none of them.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_AROUND = 2**16
"""Bytes of a request that are not its body (request line, headers, trailers, marks of chunks), give
or take one read."""
SECONDS = 60.0
"""The time in which a request must arrive whole."""
WRITE_SECONDS = 30.0
"""The time in which whoever is sent something must take the next `UNSENT` bytes of it."""
UNSENT = 2**16
"""Bytes that wait for one connection before its answer is made to wait."""
MOST_UNSENT = 2**26
"""Bytes that wait for all connections of a process together: 64 MiB."""
MOST_CONNECTIONS = 4096
"""Connections of a process. Beyond them, new ones are closed."""


class Pipelined(Exception):
    """A request came before the last one was answered. The parser stops at it."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection that asks for too much, takes too long, or comes too many."""

    connected: ClassVar[set[BoundedProtocol]] = set()
    """The connections of this process, in this role."""
    _around = 0
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT)
        if len(self.connected) >= MOST_CONNECTIONS:
            transport.abort()
            return
        self.connected.add(self)
        self._wait(True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting for the rest of a request, or for a reader."""
        self.connected.discard(self)
        self._wait(False)
        self._read(True)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Starts the clock of a request.

        One that comes before the last was answered ends the connection: devices never do that, and
        each of thousands in one packet would take memory.
        """
        if self.cycle is not None and not self.cycle.response_complete:
            self._give_up()
            raise Pipelined
        self._around = 0
        self._wait(True)
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body, which the application limits."""
        self._around -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stops the clock: the request has arrived."""
        self._wait(False)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a request, up to a limit."""
        self._around += len(data)
        super().data_received(data)
        if self._around > MOST_AROUND and self._late is not None:
            self._give_up()

    def pause_writing(self) -> None:
        """Waits for a reader, if not too much waits already; the answer waits as well."""
        super().pause_writing()
        if sum(other.unsent for other in self.connected) > MOST_UNSENT:
            self._give_up()
        self._read(False)

    def resume_writing(self) -> None:
        """Goes on with the answer: its reader has taken what was sent."""
        self._read(True)
        super().resume_writing()

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()

    def _wait(self, on: bool) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(SECONDS, self._give_up) if on else None

    def _read(self, done: bool) -> None:
        if self._unread is not None:
            self._unread.cancel()
        self._unread = None if done else self.loop.call_later(WRITE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


class OperatorProtocol(BoundedProtocol):
    """The same for the operator, whose connections are not counted with those of devices."""

    connected: ClassVar[set[BoundedProtocol]] = set()
