"""What strangers without a token can make a service hold: connections, bytes that nobody reads, lines in its log."""

import contextlib
import logging
import os
import signal
import socket
import ssl
import subprocess
import threading
from typing import ClassVar

import numpy as np
import pytest
import uvicorn

from pgc.config import configure
from pgc.service import accepting, logs, protocol
from pgc.service.alone import Alone
from pgc.service.app import InPieces, make_app
from pgc.service.database import sqlite_url
from pgc.service.logs import Limited
from pgc.service.private import make_private, operator_secret
from pgc.service.protocol import BoundedProtocol
from pgc.service.server import listen
from pgc.service.tls import make_dev_certificates
from pgc.service.watch import Watch
from tests.conftest import more
from tests.service.test_service import free_port, start
from tests.waiting import LIMIT, wait_for

READERS = 60
NUMBERS = 500_000
"""In θ: a policy of 4 MB, θ and its average."""


@contextlib.contextmanager
def silent_readers(port: int, tls: bool):
    """Connections that ask for a policy, and never read it."""
    made = []
    try:
        for _ in range(READERS):
            one = socket.create_connection(("127.0.0.1", port))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            if tls:
                one = ssl._create_unverified_context().wrap_socket(one)
            one.sendall(b"GET /v1/models/default/policy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            made.append(one)
        yield made
    finally:
        for one in made:
            one.close()


def resident(process: subprocess.Popen) -> int:
    """Bytes of memory that a process has now."""
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("tls", [True, *more(False)])
def test_readers_who_never_read_hold_little_and_do_not_delay_the_end(tmp_path, tls):
    """The hole: 60 of them held 460 MiB, and SIGTERM took more than two minutes."""
    np.save(tmp_path / "theta.npy", np.zeros(NUMBERS, np.float32))
    port = free_port()
    server = start(
        tmp_path / "service", port, None, "--theta", str(tmp_path / "theta.npy"), tls=tls
    )
    try:
        answered(port, tls)  # what is allocated once
        before = resident(server)
        with silent_readers(port, tls):
            answered(port, tls)  # all of them were accepted before this one
            assert resident(server) - before < 64 * 2**20
            os.kill(server.pid, signal.SIGTERM)
            assert server.wait(LIMIT) == 0
    finally:
        server.kill()
        server.wait()


def answered(port, tls):
    import httpx

    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1/models/default/policy"
    made = httpx.get(url, verify=False, timeout=LIMIT)
    assert made.status_code == 200 and len(made.content) > 8 * NUMBERS


@contextlib.contextmanager
def served(tmp_path, **limits):
    """A service in this process, over TLS, with limits of its own; and where it is."""
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    keeper.create("default", configure(own_policy=NUMBERS))
    files, port = make_dev_certificates(tmp_path, "127.0.0.1"), free_port()
    tls = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
    watch = Watch(keeper)
    config = uvicorn.Config(make_app(keeper, watch), log_level="warning", log_config=None, **tls)

    class Here(BoundedProtocol):
        connected: ClassVar[set] = set()

    server = accepting.BoundedServer(config, Here)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(protocol if hasattr(protocol, name) else accepting, name, value)
        thread = threading.Thread(target=server.run, args=([listen("127.0.0.1", port)],))
        thread.start()
        try:
            wait_for(lambda: server.started, "the service")
            yield keeper, port, Here
        finally:
            server.should_exit = True
            thread.join()
            watch.close()
            keeper.close()


def ended(connection) -> bool:
    """Whether the other side has closed a connection that was silent."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_connections_are_counted_before_their_handshake(tmp_path, hello):
    """The hole: 6,000 that said nothing, or half a hello, were counted nowhere, and took 400 MiB."""
    with served(tmp_path, MOST_CONNECTIONS=10, HANDSHAKE_SECONDS=LIMIT) as (_, port, _):
        silent = []
        for _ in range(30):
            silent.append(socket.create_connection(("127.0.0.1", port)))
            silent[-1].sendall(hello)
        wait_for(lambda: sum(map(ended, silent)) == 20, "all but ten to be closed")
        for one in silent:
            one.close()


def test_a_handshake_has_a_limit_of_time(tmp_path):
    with served(tmp_path, HANDSHAKE_SECONDS=0.1) as (_, port, _):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        wait_for(lambda: all(map(ended, silent)), "the end of connections that said nothing")
        for one in silent:
            one.close()


def test_requests_that_come_before_the_last_was_answered_end_the_connection(tmp_path):
    """The hole: each of thousands in one packet was kept, at a hundred times its size."""
    with served(tmp_path) as (_, port, here):
        one = ssl._create_unverified_context().wrap_socket(
            socket.create_connection(("127.0.0.1", port))
        )
        with contextlib.suppress(OSError):
            one.sendall(b"GET /v1/models/default HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        received = b""
        with contextlib.suppress(OSError):
            while piece := one.recv(2**16):
                received += piece
        assert received.count(b"HTTP/1.1 200") <= 1
        wait_for(lambda: not here.connected, "the end of the connection")
        one.close()
        answered(port, True)


def test_offers_that_nobody_reads_share_their_bytes(tmp_path):
    """The hole: each was a copy of its own, and one token could hold gigabytes."""
    with served(tmp_path) as (keeper, _, _):
        [token] = keeper.issue_tokens(1, submissions=2)
        made = [keeper.encoded(keeper.offer(token, "default").result()) for _ in range(3)]
        heads, tails = zip(*made, strict=True)
        assert len({id(tail) for tail in tails}) == 1 and len(tails[0]) > 4 * NUMBERS
        assert max(map(len, heads)) < 32
        response = InPieces(*made[0])
        assert int(response.headers["content-length"]) == sum(map(len, made[0]))


class Transport:
    """A transport that nobody reads from."""

    def __init__(self):
        self.closed, self.waiting = False, 0

    def set_write_buffer_limits(self, high):
        self.high = high

    def get_write_buffer_size(self):
        return self.waiting

    def get_extra_info(self, name, default=None):
        return default

    def is_closing(self):
        return self.closed

    def abort(self):
        self.closed = True

    close = abort


class Loop:
    """Timers that ring when they are told to."""

    def __init__(self):
        self.timers = []

    def call_later(self, seconds, work):
        timer = Timer(seconds, work)
        self.timers.append(timer)
        return timer

    def ring(self, seconds):
        for timer in self.timers:
            if timer.seconds <= seconds and not timer.cancelled:
                timer.work()


class Timer:
    def __init__(self, seconds, work):
        self.seconds, self.work, self.cancelled = seconds, work, False

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def connect(monkeypatch):
    """Makes connections to a protocol of its own, without a network."""
    import uvicorn
    from uvicorn.server import ServerState

    class Here(BoundedProtocol):
        connected = set()

    def made():
        one = Here(uvicorn.Config(lambda scope: None, log_config=None), ServerState(), {}, Loop())
        one.connection_made(Transport())
        return one

    return made


def test_a_reader_must_go_on_reading(connect):
    slow, quick = connect(), connect()
    for one in (slow, quick):
        one.transport.waiting = protocol.UNSENT + 1
        one.pause_writing()
    quick.resume_writing()
    for one in (slow, quick):
        one.loop.ring(protocol.WRITE_SECONDS)
    assert slow.transport.closed and not quick.transport.closed


def test_what_waits_for_all_is_limited(connect):
    readers = [connect() for _ in range(10)]
    for one in readers:
        one.transport.waiting = protocol.MOST_UNSENT // 8
        one.pause_writing()
    waiting = sum(one.transport.waiting for one in readers if not one.transport.closed)
    assert sum(one.transport.closed for one in readers) == 2 and waiting <= protocol.MOST_UNSENT


def test_connections_are_limited(connect, monkeypatch):
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 3)
    some = [connect() for _ in range(5)]
    assert [one.transport.closed for one in some] == [False] * 3 + [True] * 2
    some[0].connection_lost(None)
    assert not connect().transport.closed


def test_garbage_is_logged_at_a_limited_rate():
    now, written = [0.0], []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())
    handler.addFilter(Limited(lambda: now[0]))
    log = logging.Logger("test")
    log.addHandler(handler)
    for n in range(1000):
        log.warning("garbage from %d", n)
    log.warning("something else")
    assert len(written) == logs.LINES + 1
    now[0] += logs.PERIOD
    log.warning("garbage from %d", 1000)
    assert written[-1] == "garbage from 1000 (and 990 more like it in the time before)"


def test_texts_that_strangers_make_up_are_not_remembered_for_ever():
    limited = Limited(lambda: 0.0)
    for n in range(10 * logs.TEXTS):
        limited.filter(logging.makeLogRecord({"msg": f"garbage {n}"}))
    assert len(limited._seen) <= logs.TEXTS
    record = logging.makeLogRecord({"msg": "what the service says", **logs.OURS})
    assert all(limited.filter(record) for _ in range(10 * logs.LINES))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_files_are_private_whatever_the_umask(tmp_path, umask, monkeypatch):
    from pgc.device.ledger import Ledger
    from pgc.service.database import Database, sqlite_url
    from pgc.service.tls import make_dev_certificates

    monkeypatch.delenv("PGC_OPERATOR_SECRET", raising=False)
    (tmp_path / "store.db").touch()
    (tmp_path / "store.db").chmod(0o666)  # one that was made before, by an older version
    before = os.umask(umask)
    try:
        Database(sqlite_url(tmp_path / "store.db")).close()
        store = Database(sqlite_url(tmp_path / "new.db"))
        with store.writing() as db:
            db.exec_driver_sql("CREATE TABLE t (x)")
        Ledger.create(tmp_path / "ledger.db", 1.0).reserve(1, bytes(32), 1, b"x")
        make_dev_certificates(tmp_path, "localhost")
        secret = operator_secret(tmp_path)
    finally:
        os.umask(before)
    for name in ("store.db", "new.db", "new.db-wal", "ledger.db", "server.key", "operator.secret"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, name
    store.close()
    assert operator_secret(tmp_path) == secret and len(secret) > 40
    monkeypatch.setenv("PGC_OPERATOR_SECRET", "a secret that is given")
    assert operator_secret(tmp_path) == "a secret that is given"


def test_the_operators_port_needs_its_secret(tmp_path, monkeypatch):
    """The hole: every user of the machine could roll a model back."""
    import httpx

    monkeypatch.delenv("PGC_OPERATOR_SECRET", raising=False)
    folder, port, operator = tmp_path / "service", free_port(), free_port()
    server = start(folder, port, None, "--operator-port", str(operator))
    try:
        url = f"http://127.0.0.1:{operator}"

        def there():
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{url}/metrics").status_code

        assert wait_for(there, "the operator's interface") == 401
        assert httpx.post(f"{url}/models/default/rollback/0").status_code == 401
        secret = (folder / "operator.secret").read_text().strip()
        headers = {"authorization": f"Bearer {secret}"}
        assert "pgc_updates_here" in httpx.get(f"{url}/metrics", headers=headers).text
        for page in ("/docs", "/redoc"):  # which would load scripts from elsewhere
            assert httpx.get(url + page, headers=headers).status_code == 404
    finally:
        server.kill()
        server.wait()
    make_private(folder / "operator.secret")
