"""Killed again and again, servers, updaters and devices: nothing that was acknowledged is lost, nothing counts twice, no ledger overspends.

With SQLite one server; with PostgreSQL two front ends behind one list of addresses, of which one updates θ at a time.
"""

import contextlib
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from pgc.device.device import Device
from pgc.service import keeper, store
from pgc.service.database import Database, sqlite_url
from pgc.service.replay import replay
from pgc.wire import Offer
from tests.conftest import more
from tests.length import length
from tests.service.at_work import AtWork, kill
from tests.service.test_service import free_port, start
from tests.waiting import wait_for

KILLS = length(6, 150)
DEVICES = 4


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", *more("postgresql")])
def test_servers_updaters_and_devices_are_killed(kind, request, tmp_path):
    sqlite = kind == "sqlite"
    url = (
        sqlite_url(tmp_path / "service" / "store.db")
        if sqlite
        else request.getfixturevalue("new_database")()
    )
    at_work = AtWork(tmp_path, url, front_ends=1 if sqlite else 2, devices=DEVICES)
    victims = ["server", "updater", "device"] * (KILLS // 3)
    random.shuffle(victims)
    try:
        for victim in victims:
            at_work.work(random.randint(1, 20))
            front = random.randrange(len(at_work.servers))
            if victim == "server":
                at_work.kill_server(front)
            elif victim == "device":
                at_work.kill_device(random.randrange(DEVICES))
            else:
                for updater in at_work.updaters(front):
                    with contextlib.suppress(ProcessLookupError):  # it may be starting again
                        os.kill(updater, signal.SIGKILL)
        at_work.work(random.randint(1, 20))  # at the end all of them live and work
    finally:
        at_work.stop()
    assert at_work.check() > KILLS


@pytest.mark.more
def test_the_updater_dies_and_another_takes_over(new_database, tmp_path):
    """Two front ends; the one that updates is killed while it does."""
    folder, url, ports = tmp_path / "service", new_database(), [free_port(), free_port()]
    with ThreadPoolExecutor() as pool:  # at the same moment, on an empty database
        servers = list(pool.map(lambda port: start(folder, port, url), ports))
    database = Database(url)
    try:
        [token] = keeper.issue_tokens(database, 1, 10_000)
        device = Device.create(tmp_path / "l.db", 1000.0)

        def report_to(which, reports):
            from pgc.service.client import ServiceClient

            with ServiceClient(
                f"https://127.0.0.1:{ports[which]}", token, ca=str(folder / "ca.pem"), patience=3600
            ) as client:
                for _ in range(reports):
                    offer = client.offer()
                    vector = np.ones(len(Offer.decode(offer).theta))
                    assert client.submit(device.release(offer, vector)) == "accepted"

        def versions():
            with database.reading() as db:
                return store.newest_version(db, "default")

        def updates(which):
            url = f"https://127.0.0.1:{ports[which]}/v1/status"
            return httpx.get(url, verify=False).json()["updates_here"]

        wait_for(lambda: updates(0) or updates(1), "a process that updates")
        leads = 0 if updates(0) else 1
        report_to(1 - leads, 20)  # to the one that follows: the other makes the versions
        wait_for(lambda: versions() == 2, "two versions")
        kill(servers[leads])
        report_to(1 - leads, 20)
        wait_for(lambda: versions() == 4, "the other front end's two versions")
        assert replay(database, "default").differs is None
    finally:
        for server in servers:
            kill(server)
        database.close()
