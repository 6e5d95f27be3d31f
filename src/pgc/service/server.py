"""Runs a front end: sockets, TLS, signals, and one event loop for devices and operator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from pgc.errors import PgcError
from pgc.service.accepting import BoundedServer
from pgc.service.app import make_app
from pgc.service.asking import Surrounded
from pgc.service.keeper import Keeper
from pgc.service.metrics import Metrics
from pgc.service.operating import make_operator_app
from pgc.service.protocol import BoundedProtocol, OperatorProtocol
from pgc.service.watch import Watch

log = logging.getLogger("pgc.service")
SHUTDOWN_SECONDS = 5
"""After SIGTERM, the time for requests that are under way. Then their connections are cut."""
RENEW_SECONDS = 60.0
"""Seconds between two looks at the files of the certificate."""
LEAVE_SECONDS = 30.0
"""After that, the time for all the rest."""
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


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as PEM files, which may be replaced while they are served."""

    chain: Path
    key: Path

    def check(self) -> None:
        """Refuses files that are no certificate with its key."""
        for file in (self.chain, self.key):
            if not file.is_file():
                raise PgcError(f"cannot read {file}")
        try:
            self.loaded()
        except ssl.SSLError as error:
            raise PgcError(
                f"{self.chain} and {self.key} are no certificate with its key "
                f"({error.reason or error})"
            ) from None
        except OSError as error:
            raise PgcError(f"cannot read {self.chain} and {self.key} ({error.strerror})") from None

    def loaded(self) -> ssl.SSLContext:
        """Returns what is in the files now, for connections that begin from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context

    @property
    def options(self) -> dict[str, str]:
        """What uvicorn is told."""
        return {"ssl_certfile": str(self.chain), "ssl_keyfile": str(self.key)}

    @property
    def stamp(self) -> tuple[int, ...]:
        """Two numbers that change when the files do."""
        return tuple(file.stat().st_mtime_ns for file in (self.chain, self.key))

    def expires_at(self) -> float:
        """Returns when the certificate expires, in seconds since 1970."""
        from cryptography import x509

        return x509.load_pem_x509_certificate(
            self.chain.read_bytes()
        ).not_valid_after_utc.timestamp()


@dataclass(frozen=True)
class Operating:
    """Where the operator reaches a front end, and by which secret."""

    listener: socket.socket
    secret: str
    elsewhere: bool = False
    """Whether that is from other machines as well."""


def serve(
    keeper: Keeper,
    listener: socket.socket,
    watch: Watch,
    *,
    certificate: Certificate | None = None,
    operating: Operating | None = None,
    page: bool = True,
) -> None:
    """Serves devices at a socket, and the operator at another; `page` is whether the live page is
    public.

    It returns after SIGTERM or SIGINT. SIGHUP makes it read its certificate again, which it also
    does by itself within a minute after the files changed.
    """
    _many_files()
    settings: dict[str, Any] = {
        "log_level": "warning",
        "log_config": None,
        "access_log": False,
        "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
    }
    tls: dict[str, Any] = {} if certificate is None else dict(certificate.options)
    metrics = Metrics(keeper, watch, None if certificate is None else certificate.expires_at())
    public = Surrounded(make_app(keeper, watch, page=page), metrics.took)
    configs = [uvicorn.Config(public, **settings, **tls)]
    servers, listeners = [BoundedServer(configs[0], BoundedProtocol)], [listener]
    if operating is not None:
        made = make_operator_app(
            keeper, watch, metrics, operating.secret, elsewhere=operating.elsewhere
        )
        own: dict[str, Any] = tls if operating.elsewhere else {}
        configs.append(uvicorn.Config(Surrounded(made, lambda *_: None), **settings, **own))
        servers.append(BoundedServer(configs[1], OperatorProtocol))
        listeners.append(operating.listener)

    def renew() -> None:
        if certificate is not None:
            _renew(certificate, configs, metrics)

    async def serve_all() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, renew)
        renewing = asyncio.create_task(_look_at(certificate, renew)) if certificate else None
        at = "" if operating is None else operating.listener.getsockname()
        words = f", for the operator at {at[0]}:{at[1]}" if at else ""
        log.info("listening at %s%s", watch.where, words)
        try:
            await asyncio.gather(
                *(server.serve([on]) for server, on in zip(servers, listeners, strict=True))
            )
        finally:
            if renewing is not None:
                renewing.cancel()
            _leave_anyway()

    # lets the threads that write and look run beside an event loop that is always busy
    sys.setswitchinterval(0.001)
    # uvicorn closes its connections and then raises the signal again
    signal.signal(signal.SIGTERM, _end)
    with contextlib.suppress(_Ended):
        uvloop.run(serve_all())


def _renew(certificate: Certificate, configs: Sequence[uvicorn.Config], metrics: Metrics) -> None:
    """Serves the certificate that is in the files now to whoever connects from now on."""
    try:
        certificate.check()
        # a new context: one that knows keys of two kinds would go on serving the old one as well
        fresh = certificate.loaded()
        for config in configs:
            if config.ssl is not None:
                config.ssl = fresh
        metrics.expires_at = certificate.expires_at()
    except (PgcError, OSError, ValueError) as error:
        log.error("the certificate is not renewed: %s", error)
    else:
        log.info("the certificate was read again")


async def _look_at(certificate: Certificate, renew: Callable[[], None]) -> None:
    """Reads the certificate again after its files changed."""
    known: Any = None
    with contextlib.suppress(OSError):  # they are being replaced
        known = certificate.stamp
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        with contextlib.suppress(OSError):
            if certificate.stamp != known:
                known = certificate.stamp
                renew()


def _leave_anyway() -> None:
    """Ends this process in any case, some time after it was told to: what was acknowledged is on
    the disk, and a store that does not answer must not keep it.
    """
    late = threading.Timer(LEAVE_SECONDS, os._exit, (1,))
    late.daemon = True
    late.start()


class _Ended(BaseException):
    """Ends the event loop after SIGTERM."""


def _end(*_: Any) -> None:
    raise _Ended


def _many_files() -> None:
    """Allows as many connections as the system does, which is more than a shell's limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
