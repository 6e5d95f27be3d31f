"""The device's side of the service, against services that are not friendly."""

import contextlib
import socket
import threading

import numpy as np
import pytest

from pgc.device.device import Device
from pgc.errors import PgcError
from pgc.service.client import FIRST_PAUSE, LONGEST_PAUSE, ServiceClient, run_device
from tests.device.test_reserve import Plays
from tests.service.test_service import free_port
from tests.waiting import LIMIT
from tests.wire.samples import make_offer


class Repeats:
    """A service that hands out the same offer again and again, and accepts each answer."""

    def __init__(self, offers):
        self.offers, self.pauses, self.reports = iter(offers), [], []

    def offer(self):
        return next(self.offers, None)

    def submit(self, report):
        self.reports.append(report)
        return "accepted" if self.reports.count(report) == 1 else "duplicate"

    def pause(self, seconds):
        self.pauses.append(seconds)


def test_an_offer_that_is_repeated_counts_once_and_makes_the_device_pause(tmp_path):
    """The hole: a service that repeats an answered offer kept a device busy, and counted every time."""
    first, second = (make_offer("duchi", offer_id=n).encode() for n in (1, 2))
    service = Repeats([first] * 12 + [second])
    player = Plays(lambda *_: (np.ones(6), True))
    device = Device.create(tmp_path / "l.db", 10.0, player=player, slot_seconds=0)
    assert run_device(service, device) == (2, "this token's reports are used up")
    assert player.plays == 2 and len(set(service.reports)) == 2
    assert service.pauses == [min(FIRST_PAUSE * 2**n, LONGEST_PAUSE) for n in range(11)]


@contextlib.contextmanager
def dripping(begins: bytes):
    """A service that begins an answer, and then sends a byte whenever it is told to go on, without end."""
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve():
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)
            connection.sendall(begins)
            while not stop.wait(0.02):  # often enough that no read ever times out
                connection.sendall(b"a")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        stop.set()
        thread.join(LIMIT)
        server.close()


@pytest.mark.parametrize(
    "begins",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: "],
)
def test_patience_ends_also_where_an_answer_drips(begins):
    """The hole: an answer of a byte a second was read for as long as it lasted."""
    with (
        dripping(begins) as url,
        ServiceClient(url, "token", patience=0.5) as client,
        pytest.raises(PgcError, match=r"gave up on .* after 0.5 s: the answer did not end"),
    ):
        client.offer()


def test_a_service_that_is_not_there_is_given_up():
    with (
        ServiceClient(f"http://127.0.0.1:{free_port()}", "token", patience=0.1) as client,
        pytest.raises(PgcError, match=r"gave up on .* after 0.1 s"),
    ):
        client.offer()
