"""Killed again and again, servers and devices: nothing that was acknowledged is lost, nothing counts twice, no ledger overspends.

With SQLite one server; with PostgreSQL two front ends behind one list of addresses, of which one updates θ at a time.
"""

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import sqlalchemy as sql

from pgc.device.device import Device
from pgc.service import keeper, store
from pgc.service.alone import Alone
from pgc.service.database import Database, sqlite_url
from pgc.service.replay import replay, same
from pgc.wire import Offer
from tests.conftest import more
from tests.length import length
from tests.service.test_service import free_port, start
from tests.waiting import wait_for

KILLS = length(4, 100)
DEVICES, REPORTS = 4, 100_000
EPSILON = ("--epsilon", "0.01")  # so that a ledger's 1000 is enough for all of them
DEVICE = """
import sys
import numpy as np
from pgc.device import Device
from pgc.service.client import ServiceClient
from pgc.wire import Offer
ledger, url, ca, token, log = sys.argv[1:]
device, rng = Device.open(ledger), np.random.default_rng()
with ServiceClient(url, token, ca=ca, patience=3600) as client, open(log, "a") as out:
    while (offer := client.offer()) is not None:
        report = device.release(offer, rng.standard_normal(len(Offer.decode(offer).theta)))
        print(client.submit(report), Offer.decode(offer).offer_id, report.hex(), file=out, flush=True)
"""


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", *more("postgresql")])
def test_servers_and_devices_are_killed(kind, request, tmp_path):
    folder = tmp_path / "service"
    url = (
        sqlite_url(folder / "store.db")
        if kind == "sqlite"
        else request.getfixturevalue("new_database")()
    )
    ports = [free_port() for _ in range(1 if kind == "sqlite" else 2)]
    servers = [start(folder, port, url, *EPSILON) for port in ports]
    database = Database(url)
    tokens = keeper.issue_tokens(database, DEVICES, REPORTS)
    for n in range(DEVICES):
        Device.create(tmp_path / f"{n}.db", REPORTS / 100)

    def device(n):
        command = [
            sys.executable,
            "-c",
            DEVICE,
            tmp_path / f"{n}.db",
            f"https://127.0.0.1:{ports[n % len(ports)]}",
        ]
        return subprocess.Popen(
            [*map(str, command), str(folder / "ca.pem"), tokens[n], str(tmp_path / f"{n}.log")]
        )

    def acknowledged_so_far():
        return sum(
            (tmp_path / f"{n}.log").read_bytes().count(b"\n")
            for n in range(DEVICES)
            if (tmp_path / f"{n}.log").exists()
        )

    def all_live():
        assert all(process.poll() is None for process in [*servers, *devices])

    devices = [device(n) for n in range(DEVICES)]
    victims = [(servers, len(servers)), (devices, DEVICES)] * (KILLS // 2)
    random.shuffle(victims)
    try:
        for among, many in [*victims, (None, 0)]:  # at the end all of them live and work
            enough = acknowledged_so_far() + random.randint(1, 20)
            wait_for(
                lambda enough=enough: acknowledged_so_far() >= enough,
                "reports that are acknowledged",
                all_live,
            )
            if among is not None:
                which = random.randrange(many)
                kill(among[which])
                among[which] = (
                    start(folder, ports[which], url, *EPSILON)
                    if among is servers
                    else device(which)
                )
    finally:
        for process in [*devices, *servers]:
            kill(process)
    acknowledged = {}
    for n in range(DEVICES):
        for line in (tmp_path / f"{n}.log").read_text().splitlines():
            verdict, offer_id, report = line.split()
            assert (
                verdict in ("accepted", "duplicate")
                and acknowledged.setdefault(int(offer_id), report) == report
            )
    with database.reading() as db:
        kept = store.reports_after(db, "default", 0)
        left = db.execute(sql.select(sql.func.sum(store.tokens.c.left))).scalar_one()
    counted = {report.offer_id: report.payload for report in kept}
    assert len(counted) == len(kept) == DEVICES * REPORTS - left
    assert len(acknowledged) > KILLS
    for offer_id, report in acknowledged.items():
        assert counted[offer_id] == bytes.fromhex(report)[13:]
    for n in range(DEVICES):
        balance = Device.open(tmp_path / f"{n}.db").balance
        assert balance.spent <= balance.most
    recovered = Alone(url)
    try:
        wait_for(lambda: recovered.leads, "the lease, when the last killed server's updater ends")
        recovered.wait_until_applied()
        made = replay(database, "default")
        assert (
            made.differs is None
            and made.reports == len(kept)
            and same(made.state, recovered.model("default").state)
        )
        assert made.compared == made.versions == len(kept) // 10 + 1
    finally:
        recovered.close()
        database.close()


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


def kill(process):
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
