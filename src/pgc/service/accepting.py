"""Accepts connections, and counts them from the first packet on.

uvicorn leaves accepting to the event loop, which tells of a connection only after its TLS
handshake: whoever connects and says nothing would be counted nowhere.
"""

from __future__ import annotations

import asyncio
import resource
import socket

import uvicorn

from pgc.service import protocol
from pgc.service.protocol import BoundedProtocol

HANDSHAKE_SECONDS = 10.0
"""The time for a TLS handshake."""
MOST_HANDSHAKES = 1024
"""Handshakes that are under way. Beyond them, new connections are closed."""
KEPT_FILES = 256
"""Descriptors that are kept for the store and the log."""


class BoundedServer(uvicorn.Server):
    """uvicorn's server, with a limit on connections that holds before their handshake."""

    def __init__(self, config: uvicorn.Config, speaks: type[BoundedProtocol]) -> None:
        super().__init__(config)
        self._speaks = speaks

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept at these sockets."""
        await super().startup(sockets=[])
        self._shaking: set[asyncio.Task[None]] = set()
        self._accepting = [asyncio.create_task(self._accept(one)) for one in sockets or []]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts no more, and ends what is under way."""
        for task in (*self._accepting, *self._shaking):
            task.cancel()
        await asyncio.gather(*self._accepting, *self._shaking, return_exceptions=True)
        await super().shutdown(sockets=sockets)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # whoever connected has gone, or there is no descriptor
                await asyncio.sleep(0.05)
                continue
            if (
                len(self._shaking) >= MOST_HANDSHAKES
                or len(self._shaking) + len(self._speaks.connected) >= most_connections()
            ):
                connection.close()
                continue
            connection.setblocking(False)
            task = loop.create_task(self._shake_hands(connection))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    async def _shake_hands(self, connection: socket.socket) -> None:
        tls = self.config.ssl
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                connection,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except OSError:  # no handshake, or none in time
            connection.close()

    def _protocol(self) -> BoundedProtocol:
        return self._speaks(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def most_connections() -> int:
    """Returns how many connections a process holds: fewer where it may not open so many files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(protocol.MOST_CONNECTIONS, files - KEPT_FILES))
