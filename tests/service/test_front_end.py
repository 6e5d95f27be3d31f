"""A front end is small: it hands out bytes that the process which updates made, and computes nothing itself."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from pgc.cli.main import main
from pgc.config import configure, to_yaml
from pgc.device.device import Device
from pgc.service import history, store
from pgc.service.admission import Verdict
from pgc.service.alone import Alone
from pgc.service.client import ServiceClient
from pgc.service.database import sqlite_url
from pgc.service.keeper import Keeper
from pgc.service.updater_process import UpdaterProcess
from pgc.wire import Offer
from tests.service.at_work import updaters_of
from tests.service.test_service import free_port, start
from tests.waiting import LIMIT, wait_for

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=5, local_episodes=2)


def report(keeper, tmp_path, count, model):
    """Sends so many reports, each with a token of its own."""
    ledger = tmp_path / "device.db"
    device = Device.open(ledger) if ledger.exists() else Device.create(ledger, 1000.0)
    for token in keeper.issue_tokens(count, 1):
        offer = Offer.decode(b"".join(keeper.encoded(keeper.offer(token, model).result())))
        made = device.release(offer, np.ones(len(offer.theta)))
        assert keeper.report(token, model, made).result() is Verdict.ACCEPTED


def test_a_front_end_imports_no_jax():
    """Nor anything else that is heavy: it is ready soon, and many of them fit on a machine."""
    code = "import sys, pgc.cli.serve, pgc.service.server; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    heavy = {"jax", "scipy", "matplotlib", "gymnasium", "optax", "pyarrow", "pgc.config"}
    assert not heavy & set(told.stdout.split())


def test_a_front_end_hands_out_the_bytes_that_were_stored(tmp_path):
    """The same for a version that is new, for one that is old, and after a migration from a store without them."""
    url = sqlite_url(tmp_path / "store.db")
    with_model = Alone(url)
    with_model.create("home", CONFIG)
    [token] = with_model.issue_tokens(1, submissions=1)
    front = Keeper(url)
    issued = front.offer(token, "home").result()
    there = b"".join(front.encoded(issued))
    template = with_model.model("home").published.template
    assert there == template.renumbered(issued.offer_id, issued.expires_at)
    assert front.models["home"].policy == with_model.model("home").published.policies
    assert json.loads(json.dumps(with_model.model("home").card)) == front.models["home"].card
    front.close()
    with_model.close()
    with_model = Alone(url)
    with with_model.database.writing() as db:  # as a pgc before version 3 of the tables left it
        db.execute(store.versions.update().values(offer=None, policy=None))
        db.execute(store.models.update().values(card=None))
    with_model.close()
    front = Keeper(url)
    assert front.models == {}  # nothing to hand out until a process that updates has seen it
    with_model = Alone(url)
    front.follower.wait_for_a_look()
    assert b"".join(front.encoded(issued)) == there and front.models["home"].card["card"] == 2
    front.close()
    with_model.close()


@pytest.mark.more
def test_the_process_that_updates_is_started_again(tmp_path, capsys):
    """Killed at any moment, also while reports come in; and it never outlives its front end, however that ends."""
    port, folder = free_port(), tmp_path / "service"
    server = start(folder, port)
    try:
        main(["tokens", "issue", str(folder), "--submissions", "40"])
        [token] = capsys.readouterr().out.split()
        device = Device.create(tmp_path / "ledger.db", 40.0)
        with ServiceClient(
            f"https://127.0.0.1:{port}", token, ca=str(folder / "ca.pem")
        ) as service:

            def send(count):
                for _ in range(count):
                    offer = Offer.decode(service.offer())
                    assert service.submit(device.release(offer, offer.theta)) == "accepted"

            send(1)
            [first] = wait_for(lambda: updaters_of(server), "the first")
            os.kill(first, signal.SIGKILL)
            send(20)  # in part while there is none: nothing that wakes it may stop the front end
            wait_for(lambda: service.card()["version"] >= 2, "two buffers by another process")
            [second] = updaters_of(server)
            assert second != first
        mapped = Path(f"/proc/{server.pid}/maps").read_text()
        assert "jaxlib" not in mapped  # after offers and reports as well
    finally:
        server.kill()
        server.wait()
    wait_for(lambda: not os.path.exists(f"/proc/{second}"), "the end of the second")


def test_a_stop_ends_whatever_is_being_started(tmp_path, monkeypatch):
    """While there is no process that updates, because the last one has ended."""
    monkeypatch.setattr("pgc.service.updater_process.FIRST_PAUSE", 0.05)
    made = UpdaterProcess(
        "sqlite:////nowhere/at/all.db",
        where="here",
        run_code=False,
        logs={"level": "error", "format": "text"},
        told=lambda: None,
    )
    for n in range(3):
        wait_for(lambda: made._process is None, "its end, since it has no store")
        made.wake()
        if n < 2:
            wait_for(lambda: made._process is not None, "another one")
    made.close()
    assert not made._thread.is_alive()


def test_a_model_that_cannot_be_updated_does_not_hold_up_the_others(tmp_path):
    """Nor the signs of life, nor tidying up; and it is said once."""
    url = sqlite_url(tmp_path / "store.db")
    alone = Alone(url)
    alone.create("good", CONFIG)
    with alone.database.writing() as db:
        db.execute(store.models.insert().values(name="bad", config="preset: 3", accepted=0))
    report(alone, tmp_path, 5, "good")
    alone.wait_until_applied()
    alone.updater._beaten = -1e9
    turns = alone.updater._turns
    wait_for(lambda: alone.updater._turns > turns + 3, "some turns")
    with alone.database.reading() as db:
        [seen] = history.list_processes(db)
        assert store.overview(db)["good"][1] == store.Progress(5, 5, 5)
    assert seen.name == history.UPDATER and seen.facts["not_updated"] == ["bad"] and alone.leads
    alone.close()


def test_reports_that_are_too_old_for_an_update_do_not_stop_the_service(tmp_path):
    """They are taken and dropped: a front end that counted them as waiting was not ready for ever."""
    alone = Alone(sqlite_url(tmp_path / "store.db"))
    alone.create("home", replace(CONFIG, max_staleness=0))
    ledger, old = Device.create(tmp_path / "d.db", 100.0), []
    for token in alone.issue_tokens(4, 1):
        old.append(
            (token, Offer.decode(b"".join(alone.encoded(alone.offer(token, "home").result()))))
        )
    report(alone, tmp_path, 5, "home")
    alone.wait_until_applied()
    assert alone.models["home"].version == 1
    for token, offer in old:
        made = ledger.release(offer, np.ones(len(offer.theta)))
        assert alone.report(token, "home", made).result() is Verdict.ACCEPTED
    alone.wait_until_applied()
    alone.updater._beaten = -1e9
    alone.wait_until_applied()
    alone.follower.wait_for_a_look()
    progress = alone.progress("home")
    assert progress.unapplied == 4 and progress.untaken == 0 and alone.models["home"].version == 1
    alone.close()


def test_a_mechanism_of_ones_own_is_served(tmp_path, monkeypatch, capsys):
    """With --run-code alone; without, the store is refused in one line."""
    (tmp_path / "mine.py").write_text(
        (Path(__file__).parents[1] / "randomise" / "outside.py").read_text()
    )
    monkeypatch.chdir(tmp_path)
    config = configure(epsilon=1.0, mechanism="tests.randomise.outside:CoordinateSign")
    text = to_yaml(config).replace("tests.randomise.outside:", "mine:")
    (tmp_path / "config.yaml").write_text(text)
    port = free_port()
    server = start(tmp_path / "service", port, None, "--config", "config.yaml", "--run-code")
    try:
        card = httpx.get(f"https://127.0.0.1:{port}/v1/models/default", verify=False).json()
        assert card["mechanism"] == "coordinate-sign"
    finally:
        server.terminate()
        server.wait()
    assert main(["serve", "service", "--port", str(port)]) == 2
    assert "names code of its own (mine:CoordinateSign)" in capsys.readouterr().err


def test_head_is_answered_like_get(tmp_path):
    port = free_port()
    server = start(tmp_path / "service", port)
    try:
        url = f"https://127.0.0.1:{port}"
        for path in ("/", "/health", "/v1/models/default", "/v1/models/default/policy"):
            head, get = (httpx.request(m, url + path, verify=False) for m in ("HEAD", "GET"))
            assert head.status_code == get.status_code == 200 and head.content == b""
            assert re.fullmatch("[0-9a-f]{8}", head.headers["x-request-id"])
        assert httpx.head(f"{url}/nowhere", verify=False).status_code == 404
    finally:
        server.kill()
        server.wait()
