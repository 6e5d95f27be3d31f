"""Runs the service: sockets, TLS, signals, and one event loop for devices and operator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
import uvloop

from pgc.errors import PgcError
from pgc.service.accepting import BoundedServer
from pgc.service.app import make_app, make_operator_app
from pgc.service.keeper import Keeper
from pgc.service.protocol import BoundedProtocol, OperatorProtocol
from pgc.service.watch import watch

log = logging.getLogger("pgc.service")
SHUTDOWN_SECONDS = 5
"""After SIGTERM, the time for requests that are under way. Then their connections are cut."""
SEND_BUFFER = 2**18
"""Bytes of an answer that the system may hold for one connection."""


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens, or refuses with the reason."""
    if not 0 < port < 2**16:
        raise PgcError(f"a port is between 1 and 65535, not {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=2048)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        return made
    except OSError as error:
        raise PgcError(
            f"cannot listen at {host}:{port} ({error.strerror}); --port and --operator-port choose "
            "others"
        ) from None


def serve(
    keeper: Keeper,
    listeners: Sequence[socket.socket],
    tls: dict[str, Any],
    where: str,
    secret: str = "",
) -> None:
    """Serves devices at the first socket, and at the second, if there is one, the operator, who
    knows the secret.

    It returns after SIGTERM or SIGINT.
    """
    _many_files()
    settings: dict[str, Any] = {
        "log_level": "warning",
        "log_config": None,
        "access_log": False,
        "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
    }
    devices = uvicorn.Config(make_app(keeper), **settings, **tls)
    servers = [BoundedServer(devices, BoundedProtocol)]
    if len(listeners) > 1:
        operator = uvicorn.Config(make_operator_app(keeper, secret), **settings)
        servers.append(BoundedServer(operator, OperatorProtocol))

    async def serve_all() -> None:
        watching = asyncio.create_task(watch(keeper))
        log.info("listening at %s", where)
        try:
            await asyncio.gather(
                *(server.serve([on]) for server, on in zip(servers, listeners, strict=True))
            )
        finally:
            watching.cancel()

    # lets the threads that write and update run beside an event loop that is always busy
    sys.setswitchinterval(0.001)
    # uvicorn closes its connections and then raises the signal again
    signal.signal(signal.SIGTERM, _end)
    with contextlib.suppress(_Ended):
        uvloop.run(serve_all())


class _Ended(BaseException):
    """Ends the event loop after SIGTERM."""


def _end(*_: Any) -> None:
    raise _Ended


def _many_files() -> None:
    """Allows as many connections as the system does, which is more than a shell's limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
