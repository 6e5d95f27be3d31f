"""The service killed again and again while devices report: nothing acknowledged is lost or counted twice, θ is the replay."""

import os
import random
import signal
import threading
import time

import jax
import numpy as np

from pgc.config import from_yaml
from pgc.device import Device
from pgc.errors import PgcError
from pgc.service import store
from pgc.service.client import ServiceClient
from pgc.service.keeper import Keeper
from pgc.service.model import Model
from pgc.wire import Offer
from tests.service.test_service import free_port, start

KILLS = 3 if int(os.environ.get("PGC_KILLS", "500")) <= 500 else 200
DEVICES, REPORTS = 6, 400


def test_killed_while_devices_report(tmp_path):
    folder, port = tmp_path / "service", free_port()
    server = start(folder, port)
    engine = store.connect(store.sqlite_url(folder / "store.db"))
    tokens = [f"token-{n}" for n in range(DEVICES)]
    with engine.begin() as db:
        store.issue_tokens(db, [store.hash_token(t) for t in tokens], REPORTS)
    acknowledged, stop, problems = [], threading.Event(), []

    def play(n):
        rng = np.random.default_rng(n)
        device = Device.create(tmp_path / f"{n}.db", REPORTS)
        try:
            with ServiceClient(f"https://127.0.0.1:{port}", tokens[n], ca=str(folder / "ca.pem"), patience=200) as client:
                while not stop.is_set() and (offer := client.offer()) is not None:
                    report = device.release(offer, rng.standard_normal(len(Offer.decode(offer).theta)))
                    if client.submit(report) in ("accepted", "duplicate"):
                        acknowledged.append(Offer.decode(offer).offer_id)
            assert device.balance.spent <= device.balance.most
        except PgcError as error:
            problems.append(str(error))

    devices = [threading.Thread(target=play, args=(n,)) for n in range(DEVICES)]
    for device in devices:
        device.start()
    try:
        for _ in range(KILLS):
            time.sleep(random.uniform(0.5, 2.5))
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
            server = start(folder, port, renew=False)
        time.sleep(0.5)
    finally:
        stop.set()
        for device in devices:
            device.join()
        server.kill()
        server.wait()
    assert not problems and len(acknowledged) == len(set(acknowledged)) > 5 * KILLS
    with engine.begin() as db:
        kept = store.reports_after(db, "default", 0)
        config = from_yaml(store.list_models(db)["default"])
        left = sum(db.execute(store.tokens.select().with_only_columns(store.tokens.c.left)).scalars())
    assert {r.offer_id for r in kept} >= set(acknowledged) and len({r.offer_id for r in kept}) == len(kept)
    assert [r.seq for r in kept] == list(range(1, len(kept) + 1)) and DEVICES * REPORTS - left == len(kept)

    replayed, bases = Model("replayed", config), {}
    for report in kept:
        bases.setdefault(replayed.version, np.asarray(replayed.state.basis))
        estimate = replayed.estimate(report.offer_id, report.version, report.payload, bases[report.version])
        replayed.accept(estimate, report.version)
    recovered = Keeper(store.sqlite_url(folder / "store.db"))
    try:
        for one, other in zip(jax.tree.leaves(recovered.models["default"].state), jax.tree.leaves(replayed.state), strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        recovered.close()
        engine.dispose()
