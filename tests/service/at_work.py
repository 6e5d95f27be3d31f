"""Servers and devices at work, each in a process of its own, and what must hold whatever befell them."""

import os
import signal
import subprocess
import sys

import sqlalchemy as sql

from pgc.device.device import Device
from pgc.service import keeper, store
from pgc.service.alone import Alone
from pgc.service.database import Database
from pgc.service.replay import replay, same
from tests.service.test_service import free_port, start
from tests.waiting import wait_for

REPORTS = 100_000
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


class AtWork:
    """Front ends over one store, with a process beside each that updates or stands by, and devices that never rest."""

    def __init__(self, place, url, *, front_ends, devices):
        self.place, self.url, self.folder = place, url, place / "service"
        self.ports = [free_port() for _ in range(front_ends)]
        self.servers = [self._serve(n) for n in range(front_ends)]
        self.database = Database(url)
        self.tokens = keeper.issue_tokens(self.database, devices, REPORTS)
        for n in range(devices):
            Device.create(place / f"{n}.db", REPORTS / 100)
        self.devices = [self._join(n) for n in range(devices)]

    def _serve(self, n):
        return start(self.folder, self.ports[n], self.url, *EPSILON)

    def _join(self, n):
        at = f"https://127.0.0.1:{self.ports[n % len(self.ports)]}"
        command = [sys.executable, "-c", DEVICE, self.place / f"{n}.db", at]
        return subprocess.Popen(
            [
                *map(str, command),
                str(self.folder / "ca.pem"),
                self.tokens[n],
                str(self.place / f"{n}.log"),
            ]
        )

    def kill_server(self, n):
        """Kills a front end, whose updater ends with it, and starts another."""
        kill(self.servers[n])
        self.servers[n] = self._serve(n)

    def kill_device(self, n):
        """Kills a device, and starts it again."""
        kill(self.devices[n])
        self.devices[n] = self._join(n)

    def updaters(self, n):
        """The process ids of the processes that update, or stand by, beside a front end."""
        return updaters_of(self.servers[n])

    def acknowledged(self):
        """How many reports devices were told of that they count."""
        logs = [self.place / f"{n}.log" for n in range(len(self.devices))]
        return sum(log.read_bytes().count(b"\n") for log in logs if log.exists())

    def work(self, reports):
        """Waits until so many more reports are acknowledged."""
        enough = self.acknowledged() + reports
        wait_for(lambda: self.acknowledged() >= enough, "reports", self.all_live)

    def all_live(self):
        assert all(process.poll() is None for process in [*self.servers, *self.devices])

    def stop(self):
        """Kills everything."""
        for process in [*self.devices, *self.servers]:
            kill(process)

    def check(self):
        """After `stop`: nothing acknowledged is lost, nothing counts twice, no ledger overspends, θ is replayed to the
        bit. Returns how many reports were acknowledged.
        """
        acknowledged = {}
        for n in range(len(self.devices)):
            for line in (self.place / f"{n}.log").read_text().splitlines():
                verdict, offer_id, report = line.split()
                assert verdict in ("accepted", "duplicate")
                assert acknowledged.setdefault(int(offer_id), report) == report
            balance = Device.open(self.place / f"{n}.db").balance
            assert balance.spent <= balance.most
        with self.database.reading() as db:
            kept = store.reports_after(db, "default", 0)
            left = db.execute(sql.select(sql.func.sum(store.tokens.c.left))).scalar_one()
        counted = {report.offer_id: report.payload for report in kept}
        assert len(counted) == len(kept) == len(self.devices) * REPORTS - left
        for offer_id, report in acknowledged.items():
            assert counted[offer_id] == bytes.fromhex(report)[13:]
        recovered = Alone(self.url)
        try:
            wait_for(lambda: recovered.leads, "the lease, when the last updater has ended")
            recovered.wait_until_applied()
            made = replay(self.database, "default")
            assert made.differs is None and made.reports == len(kept)
            assert same(made.state, recovered.model("default").state)
            with self.database.reading() as db:
                versions = store.newest_version(db, "default") + 1
            assert made.versions == versions == len(kept) // 10 + 1
            assert made.compared >= min(versions, 1000)
        finally:
            recovered.close()
            self.database.close()
        return len(acknowledged)


def updaters_of(server) -> list[int]:
    """The process ids of the processes that update beside a server."""
    told = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(server.pid)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = told.stdout.splitlines()
    return [int(line.split()[0]) for line in lines if "pgc.service.updating" in line]


def kill(process):
    """Kills a process, if it lives."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
