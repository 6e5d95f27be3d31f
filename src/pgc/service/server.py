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
from pgc.service.app import make_app, make_operator_app
from pgc.service.keeper import Keeper
from pgc.service.protocol import BoundedProtocol
from pgc.service.watch import watch

log = logging.getLogger("pgc.service")


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens, or refuses with the reason."""
    if not 0 < port < 2**16:
        raise PgcError(f"a port is between 1 and 65535, not {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise PgcError(
            f"cannot listen at {host}:{port} ({error.strerror}); --port and --operator-port choose "
            "others"
        ) from None


def serve(
    keeper: Keeper, listeners: Sequence[socket.socket], tls: dict[str, Any], where: str
) -> None:
    """Serves devices at the first socket, and the operator at the second if there is one.

    It returns after SIGTERM or SIGINT.
    """
    _many_files()
    settings: dict[str, Any] = {
        "log_level": "warning",
        "log_config": None,
        "http": BoundedProtocol,
        "access_log": False,
    }
    servers = [uvicorn.Server(uvicorn.Config(make_app(keeper), **settings, **tls))]
    if len(listeners) > 1:
        servers.append(uvicorn.Server(uvicorn.Config(make_operator_app(keeper), **settings)))

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
