"""What an operator needs: readiness that tells the truth, metrics, tokens in batches, and going back with a reason."""

import asyncio
import base64
import contextlib
import datetime
import json
import logging
import os
import signal
import ssl
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
import sqlalchemy as sql
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families

from pgc.cli.main import main
from pgc.config import configure
from pgc.device.device import Device
from pgc.device.ledger import look as look_at_ledger
from pgc.errors import PgcError
from pgc.service import history, store
from pgc.service.admission import Issued, Verdict
from pgc.service.alone import Alone
from pgc.service.app import make_app
from pgc.service.database import Database, sqlite_url
from pgc.service.keeper import Keeper, NoUpdates, issue_tokens
from pgc.service.logs import AsJson
from pgc.service.metrics import Metrics
from pgc.service.operating import make_operator_app
from pgc.service.private import from_environment, operator_secret
from pgc.service.scoring import Scorer, look
from pgc.service.tls import Files, make_dev_certificates
from pgc.service.watch import Watch
from pgc.wire import Offer
from tests.service.test_front_end import report
from tests.service.test_service import free_port, start
from tests.waiting import LIMIT, wait_for

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=3, local_episodes=2)
SECRET = {"authorization": "Bearer secret"}


@pytest.fixture
def alone(tmp_path):
    """A service with one model."""
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    keeper.create("home", CONFIG)
    yield keeper
    keeper.close()


@pytest.fixture
def operator(alone):
    """A function that asks the operator's application, with its secret."""
    watch = Watch(alone, "here")
    app = make_operator_app(alone, watch, Metrics(alone, watch), "secret")

    def ask(method, path, headers=SECRET, **more):
        async def asked():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers, timeout=LIMIT
            ) as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())

    ask.watch = watch
    yield ask
    watch.close()


def values(text):
    """Metrics by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_say_what_the_store_says(alone, operator, tmp_path):
    report(alone, tmp_path, 4, "home")
    alone.wait_until_applied()
    operator.watch._look()
    seen = values(operator("GET", "/metrics").text)
    assert seen["pgc_model_received", "home"] == 4 and seen["pgc_model_unapplied", "home"] == 1
    assert seen["pgc_model_version", "home"] == 1
    assert seen["pgc_requests_total", "accepted", "reports"] == 4
    assert seen["pgc_report_staleness_versions_count", "home"] == 4
    assert seen["pgc_tokens", "usable"] == 0 and seen["pgc_ready",] == 1
    with alone.database.reading() as db:
        assert seen["pgc_open_offers",] == store.count_offers(db) == 0
    assert seen["pgc_store_bytes",] == operator.watch.seen.store_bytes > 10_000
    alone.issue_tokens(5, 2)
    operator.watch._look()
    seen = values(operator("GET", "/metrics").text)
    assert seen["pgc_tokens", "usable"] == 5 and seen["pgc_tokens_reports_left",] == 10


def test_not_ready_where_the_disk_is_full(alone, operator):
    """It can be read, and not written: /ready said 200. SQLite's own limit stands for the disk's."""
    watch = operator.watch
    watch.look()
    assert watch.not_ready() == "" and operator("GET", "/ready").status_code == 200

    def full(connection, _):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sql.event.listen(alone.database.engine, "connect", full)
    alone.database.engine.dispose()
    watch.where = "x" * 200_000  # what this front end says of itself needs more room than there is
    watch.look()
    assert watch.not_ready() == "the store cannot be written"
    answer = operator("GET", "/ready")
    assert answer.status_code == 503 and answer.json()["detail"] == "the store cannot be written"
    watch.where = "here"
    watch.look()
    assert operator("GET", "/ready").status_code == 200


def test_a_store_that_does_not_answer_delays_no_probe_and_no_scrape(alone, operator):
    """Another process holds the lock for writing: requests read what the last look saw."""
    watch = operator.watch
    watch._stop.set()  # its thread looks no more: what it last saw is what this test says
    watch._thread.join()
    watch.look()
    with alone.database.engine.connect() as holder:
        holder.exec_driver_sql("BEGIN IMMEDIATE")
        for path in ("/ready", "/v1/status", "/metrics", "/v1/models/home/progress"):
            assert operator("GET", path).status_code == 200
        watch._tried = (watch._tried[0] - 10**6, "")  # the last look was long ago
        answer = operator("GET", "/ready")
        assert answer.status_code == 503 and "does not answer" in answer.text
        holder.exec_driver_sql("ROLLBACK")


def test_not_ready_while_nobody_updates(tmp_path):
    """Reports are taken, and wait: after a while the front end says so, and names the model."""
    with_model = Alone(sqlite_url(tmp_path / "store.db"))
    with_model.create("home", CONFIG)
    with_model.close()
    front = Keeper(sqlite_url(tmp_path / "store.db"))
    watch = Watch(front, "here")
    watch.look()
    assert watch.not_ready() == ""
    report(front, tmp_path, 4, "home")
    front.follower.wait_for_a_look()
    moved = front.follower._moved["home"]
    front.follower.wait_for_a_look()
    assert front.follower._moved["home"] == moved  # reports wait, and nobody takes them
    front.follower._moved["home"] -= 10**6
    assert watch.not_ready().startswith("no process updates home")
    with pytest.raises(NoUpdates):
        front.roll_back("home", 0, who="me", reason="test", seconds=0.2)
    with front.database.reading() as db:
        assert history.list_rollbacks(db, "home") == []  # it was withdrawn
    back = Alone(sqlite_url(tmp_path / "store.db"))  # somebody updates again
    front.follower.wait_for_a_look()
    watch.look()
    assert watch.not_ready() == "" and front.models["home"].version == 1
    watch.close()
    front.close()
    back.close()


def test_tokens_come_in_batches(alone, operator, capsys, tmp_path):
    """With labels, until a day; listed with counts; revoked together. On the command line and at the operator's port."""
    folder = str(tmp_path)
    assert main(["tokens", "issue", folder, "--count", "3", "--label", "north", "--days", "2"]) == 0
    north = capsys.readouterr().out.split()
    made = operator("POST", "/tokens", json={"count": 2, "submissions": 3, "label": "south"})
    south = made.json()["tokens"]
    assert len(north) == 3 and len(south) == 2
    assert main(["tokens", "issue", folder, "--label", "north"]) == 2
    assert "there is a batch of tokens 'north' already" in capsys.readouterr().err
    assert isinstance(alone.offer(north[0], "home").result(), Issued)
    assert main(["tokens", "revoke", folder, "--label", "south"]) == 0
    assert alone.offer(south[0], "home").result() is Verdict.REVOKED
    listed = {b["label"]: b for b in operator("GET", "/tokens").json()["batches"]}
    assert (listed["north"]["usable"], listed["south"]["revoked"]) == (3, 2)
    capsys.readouterr()
    assert main(["tokens", "list", folder]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 and any("north, issued" in line and "until" in line for line in said)
    clock, alone.clock = alone.clock, lambda: time.time() + 3 * store.DAY
    assert alone.offer(north[1], "home").result() is Verdict.EXPIRED
    assert main(["tokens", "revoke", folder, "--label", "nowhere"]) == 2
    alone.clock = clock
    again = operator("POST", "/tokens/revoke", json={"tokens": [north[0]]})
    assert (
        again.json() == {"revoked": 1} and alone.offer(north[0], "home").result() is Verdict.REVOKED
    )
    assert operator("POST", "/tokens/revoke", json={}).status_code == 400
    assert operator("POST", "/tokens", json={"label": "north"}).status_code == 400
    for wrong in ({"days": -1}, {"days": 3, "lable": "x"}, {"expires_in_days": 90}):
        answer = operator("POST", "/tokens", json=wrong)  # nothing that is misspelt is ignored
        assert answer.status_code == 422 and list(wrong)[-1] in answer.json()["detail"]
    assert operator("POST", "/tokens/revoke", json={"label": "nowhere"}).status_code == 404


def test_an_offer_can_be_answered_after_its_token_expired(alone, tmp_path):
    """The device has paid for it."""
    [token] = alone.issue_tokens(1, 2, seconds=100)
    offer = Offer.decode(b"".join(alone.encoded(alone.offer(token, "home").result())))
    made = Device.create(tmp_path / "d.db", 1.0).release(offer, np.ones(len(offer.theta)))
    alone.clock = lambda: time.time() + 200
    assert alone.report(token, "home", made).result() is Verdict.ACCEPTED
    assert alone.offer(token, "home").result() is Verdict.EXPIRED


def test_going_back_says_who_and_why(alone, operator, tmp_path):
    report(alone, tmp_path, 7, "home")
    alone.wait_until_applied()
    path = "/models/home/rollback/1"
    would = operator("POST", f"{path}?dry_run=true").json()
    assert would["would_become_version"] == 3 and would["reports_whose_effect_is_lost"] == 4
    assert alone.models["home"].version == 2  # nothing happened
    assert operator("POST", path).status_code == 400
    answer = operator("POST", f"{path}?dryrun=true&who=ada&reason=x")
    assert answer.status_code == 400 and "did you mean dry_run?" in answer.json()["detail"]
    assert alone.models["home"].version == 2
    asked = operator("POST", f"{path}?who=ada&reason=it%20learnt%20nonsense")
    assert asked.json() == {"version": 3} and alone.models["home"].version == 3
    [kept] = operator("GET", "/models/home/rollbacks").json()["rollbacks"]
    assert (kept["who"], kept["reason"], kept["version"], kept["made"]) == (
        "ada", "it learnt nonsense", 1, 3,
    )  # fmt: skip
    operator.watch.look()
    curve = operator("GET", "/v1/models/home/progress").json()
    assert [r["restored"] for r in curve["restored"]] == [1]


def test_a_rollback_that_nobody_waits_for_any_more_is_refused(alone, tmp_path):
    """The front end that asked was killed, and its operator told nothing."""
    report(alone, tmp_path, 4, "home")
    alone.wait_until_applied()
    wish = history.Rollback("1" * 32, "home", 0, "ada", "a test", int(time.time()) - 1000)
    with alone.database.writing() as db:
        history.ask_rollback(db, wish)

    def answered():
        alone.updater.wake()
        with alone.database.reading() as db:
            return history.find_rollback(db, wish.id).refused

    assert "nobody answered in time" in wait_for(answered, "an answer")
    assert alone.models["home"].version == 1


def test_a_store_whose_only_model_has_another_name_is_served(tmp_path):
    folder = tmp_path / "service"
    folder.mkdir()
    alone = Alone(sqlite_url(folder / "store.db"))
    alone.create("home", CONFIG)
    alone.close()
    port, operator = free_port(), free_port()
    more = ["--operator-port", str(operator), "--operator-host", "0.0.0.0", "--page", "operator"]
    server = start(folder, port, None, *more)
    try:
        public = f"https://127.0.0.1:{port}"
        assert httpx.get(f"{public}/v1/models", verify=False).json() == {"models": ["home"]}
        assert httpx.get(public, verify=False).status_code == 404
        assert httpx.get(f"{public}/v1/status", verify=False).status_code == 404
        secret = (folder / "operator.secret").read_text().strip()
        theirs = f"https://127.0.0.1:{operator}"  # with TLS, because others can reach it
        assert httpx.get(theirs, verify=False).status_code == 401
        page = httpx.get(theirs, verify=False, auth=("me", secret))
        assert page.status_code == 200 and "pgc aggregator" in page.text
        assert (
            httpx.get(f"{theirs}/v1/status", verify=False, auth=("me", secret)).status_code == 200
        )
    finally:
        server.kill()
        server.wait()
    refused = [
        "serve",
        str(folder),
        "--plain-text",
        "--operator-port",
        "1",
        "--operator-host",
        "0.0.0.0",
    ]
    assert main(refused) == 2


def with_card(tmp_path, capsys, change):
    """What `pgc join` says and returns, at a service whose card was changed by hand."""
    folder, port = tmp_path / "service", free_port()
    server = start(folder, port)
    try:
        main(["tokens", "issue", str(folder)])
        (tmp_path / "token").write_text(capsys.readouterr().out)
        assert (
            main(["provision", str(tmp_path / "ledger.db"), "--limit", "1", "--device-id", "x"])
            == 0
        )
        with contextlib.closing(Database(sqlite_url(folder / "store.db"))) as database:
            with database.reading() as db:
                card = json.loads(store.load_card(db, "default"))
            change(card)
            with database.writing() as db:
                store.set_card(db, "default", json.dumps(card))
        server.kill()  # the process that updates writes the card only when it loads a model
        server.wait()
        front = Keeper(sqlite_url(folder / "store.db"))
        watch = Watch(front, "here")
        app = make_app(front, watch)
        capsys.readouterr()
        with serving(app) as url:
            join = [
                "join",
                url,
                "--token-file",
                str(tmp_path / "token"),
                "--ledger",
                str(tmp_path / "ledger.db"),
            ]
            status = main([*join, "--device-id", "x", "--leak-timing"])
        watch.close()
        front.close()
        return status, capsys.readouterr().err
    finally:
        server.kill()
        server.wait()


def test_a_device_with_another_world_is_refused_before_it_pays(tmp_path, capsys):
    """Its episodes are longer than the model's: its report would be about another task."""
    status, said = with_card(tmp_path, capsys, lambda card: card["play"].update(max_steps=100))
    assert "max_steps = 100, and this device's has 200; nothing was sent and no ε was spent" in said
    assert status == 2 and look_at_ledger(tmp_path / "ledger.db").spent == 0


def test_a_card_of_before_is_read(tmp_path, capsys):
    """Version 1 did not say how its world is played: then the device's own settings count."""

    def older(card):
        del card["play"]
        card["card"] = 1

    status, said = with_card(tmp_path, capsys, older)
    assert (status, look_at_ledger(tmp_path / "ledger.db").spent) == (0, 10**9), said


@contextlib.contextmanager
def serving(app):
    """An application at a port of this machine, without TLS."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, "the server")
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def test_a_model_that_cannot_be_scored_does_not_stop_the_curves_of_others(alone, monkeypatch):
    alone.create("other", CONFIG)
    wait_for(lambda: "other" in alone.updater.models, "both models")
    seen = []

    def fails(database, model):
        seen.append(model.name)
        raise ValueError("no such world")

    monkeypatch.setattr("pgc.service.scoring.look", fails)
    scorer = Scorer(alone.database, alone.updater)
    try:
        wait_for(lambda: {"home", "other"} <= set(seen), "a look at both")
    finally:
        scorer.close()


def test_who_and_why_are_one_line(alone, operator):
    """They are logged: a second line would look like one of the service's own."""
    asked = {"who": "ada", "reason": "bad\n2026 INFO all is well"}
    answer = operator("POST", "/models/home/rollback/0", params=asked)
    assert answer.status_code == 400 and "one line" in answer.text


def test_front_ends_that_start_together_have_one_secret_and_one_certificate(tmp_path):
    """Each in a process of its own, at the same moment."""
    code = (
        "import sys; from pathlib import Path; from pgc.service.private import operator_secret;"
        "from pgc.service.tls import make_dev_certificates;"
        "print('ready', flush=True); sys.stdin.read(1);"
        "print(operator_secret(Path(sys.argv[1])));"
        "print(make_dev_certificates(Path(sys.argv[1]), 'localhost').key.read_text())"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    assert [process.stdout.readline() for process in started] == ["ready\n"] * 4
    for process in started:
        process.stdin.write("x")
        process.stdin.flush()
    made = {process.communicate()[0] for process in started}
    assert len(made) == 1 and "PRIVATE KEY" in made.pop()
    assert [process.returncode for process in started] == [0] * 4


def test_a_store_is_shown_without_its_password(new_database):
    """Not even one that is a parameter of the address, as PostgreSQL's own library takes it."""
    plain = new_database()
    for url in (plain.replace("postgres:@", "postgres:PASS@"), plain + "&password=PASS"):
        with contextlib.closing(Database(url)) as database:
            assert "PASS" not in database.shown and database.shown.startswith("postgresql://")


def test_the_curve_outlives_the_process(tmp_path):
    """Points are in the store: a restart, or another front end, shows the same curve."""
    url = sqlite_url(tmp_path / "store.db")
    first = Alone(url)
    first.create("home", CONFIG)
    wait_for(lambda: points(first), "a point")
    report(first, tmp_path, 4, "home")
    first.wait_until_applied()
    made = look(first.database, first.model("home"))
    with first.database.writing() as db:
        history.add_point(db, "home", made)
        history.add_point(db, "home", made)  # a second look at a version adds nothing
    first.close()
    front = Keeper(url)
    watch = Watch(front, "here")
    watch.look()
    curve = watch.seen.points["home"]
    assert curve[-1] == made and made.score is not None
    assert len({p.version for p in curve}) == len(curve)
    watch.close()
    front.close()


def points(keeper):
    with keeper.database.reading() as db:
        return history.list_points(db, "home")


def test_a_long_curve_is_thinned(alone):
    with alone.database.writing() as db:
        for version in range(10, 1600):
            history.add_point(db, "other", history.Point(version, 10 * version, 1.0, None, None))
        kept = [point.version for point in history.list_points(db, "other")]
    assert len(kept) <= history.MOST_POINTS + 1 and (kept[0], kept[-1]) == (10, 1599)
    quarters = [sum(low <= v < low + 400 for v in kept) for low in (10, 410, 810, 1210)]
    assert min(quarters) > 60, quarters  # the beginning is still there


def test_a_world_that_plays_on_the_host_has_a_curve(tmp_path):
    """Without a simulation in JAX, and without noisy booleans; the page died of such a model."""
    pytest.importorskip("gymnasium")
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    try:
        config = configure(
            world="gymnasium:CartPole-v1", epsilon=1.0, submissions=100, local_episodes=2
        )
        point = look(keeper.database, keeper.create("host", config))
        assert point.score is not None and point.success is None and 5 < point.score <= 500
    finally:
        keeper.close()


def test_a_certificate_is_renewed_without_a_restart(tmp_path):
    """SIGHUP: whoever connects from then on sees the new one, also where its key is of another kind; a broken one is refused."""
    old, new = (with_rsa_key(tmp_path / "1"), make_dev_certificates(tmp_path / "2", "127.0.0.1"))
    served = tmp_path / "served.pem"
    key = tmp_path / "served.key"
    port = free_port()
    for source, target in ((old.certificate, served), (old.key, key)):
        target.write_bytes(source.read_bytes())
    more = ["--certificate", str(served), "--key", str(key)]
    server = start(tmp_path / "service", port, None, *more, tls=False, https=True)
    log = tmp_path / f"log{port}"
    try:

        def shown():
            return ssl.get_server_certificate(("127.0.0.1", port))

        first = shown()
        served.write_bytes(b"nonsense")
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: "the certificate is not renewed" in log.read_text(), "a refusal")
        assert shown() == first
        served.write_bytes(new.certificate.read_bytes())
        key.write_bytes(new.key.read_bytes())
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: shown() != first, "the new certificate")
        assert (
            httpx.get(
                f"https://127.0.0.1:{port}/health",
                verify=ssl.create_default_context(cafile=str(new.ca)),
            ).status_code
            == 200
        )
    finally:
        server.kill()
        server.wait()


def with_rsa_key(folder):
    """A certificate that signs itself, with a key of the other kind than those of --dev-tls."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(1)
    )
    folder.mkdir()
    files = Files(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    files.certificate.write_bytes(
        made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    form = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    files.key.write_bytes(key.private_bytes(*form))
    return files


def test_options_come_from_the_environment_and_a_file(tmp_path, monkeypatch, capsys):
    """The command line is stronger than the environment, and that than the file."""
    from pgc.cli.options import flags_from_options
    from pgc.cli.serve import Serve

    file = tmp_path / "options.yaml"
    file.write_text("port: 1\nhost: 10.0.0.1\ndev_tls: true\nlog-format: json\n")
    monkeypatch.setenv("PGC_SERVE_PORT", "2")
    monkeypatch.setenv("PGC_SERVE_MODEL", "m")
    found = flags_from_options(Serve, "serve", ["--options", str(file), "--model", "n"])
    assert found == ["--port", "2", "--host", "10.0.0.1", "--dev-tls", "--log-format", "json"]
    monkeypatch.setenv("PGC_SERVE_DEV_TLS", "false")
    monkeypatch.setenv("PGC_SERVE_LOG_FORMAT", "text")
    found = flags_from_options(Serve, "serve", ["--options", str(file), "--model", "n"])
    assert found == ["--port", "2", "--host", "10.0.0.1", "--log-format", "text"]
    monkeypatch.delenv("PGC_SERVE_DEV_TLS")
    monkeypatch.setenv("PGC_SERVE_PORTT", "2")
    assert main(["serve", str(tmp_path / "s")]) == 2
    assert "PGC_SERVE_PORTT: there is no such flag (did you mean port?)" in capsys.readouterr().err
    monkeypatch.delenv("PGC_SERVE_PORTT")
    file.write_text("dev_tls: perhaps\n")
    assert main(["serve", str(tmp_path / "s"), "--options", str(file)]) == 2
    assert "--dev-tls is set by true or false" in capsys.readouterr().err


def test_two_answers_to_one_question_are_refused(tmp_path, monkeypatch, capsys):
    """A folder with a store and another one in the environment; a variable and a file; what is empty or short."""
    folder = str(tmp_path)
    (tmp_path / "store.db").touch()
    monkeypatch.setenv("PGC_STORE", "postgresql:///elsewhere")
    for command in (["replay", folder], ["tokens", "count", folder], ["serve", folder]):
        assert main(command) == 2
        assert "has a store of its own, and $PGC_STORE names another" in capsys.readouterr().err
    monkeypatch.setenv("PGC_STORE_FILE", folder)
    assert main(["inspect"]) == 2
    assert "$PGC_STORE and $PGC_STORE_FILE are both set" in capsys.readouterr().err
    monkeypatch.delenv("PGC_STORE")
    (tmp_path / "address").write_text("sqlite:///nowhere\n")
    monkeypatch.setenv("PGC_STORE_FILE", str(tmp_path / "address"))
    assert from_environment("PGC_STORE") == "sqlite:///nowhere"
    for name, value in (("PGC_STORE_FILE", str(tmp_path / "none")), ("PGC_STORE", " ")):
        monkeypatch.delenv("PGC_STORE_FILE", raising=False)
        monkeypatch.setenv(name, value)
        with pytest.raises(PgcError):
            from_environment("PGC_STORE")
    monkeypatch.setenv("PGC_OPERATOR_SECRET", "short")
    with pytest.raises(PgcError, match="fewer than 16"):
        operator_secret(tmp_path)


def test_a_database_that_is_not_there_yet_is_waited_for(new_database, tmp_path, capsys):
    url = new_database()
    away = url.replace("/test", "/later-test")
    assert main(["serve", str(tmp_path / "s"), "--store", away, "--wait-seconds", "0"]) == 2
    assert "the store cannot be opened" in capsys.readouterr().err
    environment = os.environ | {"PGC_STORE": away, "PGC_SERVE_PORT": str(free_port())}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "pgc.cli", "serve", str(tmp_path / "s")],
            stderr=log,
            env=environment,
        )
    try:
        said = (tmp_path / "log").read_text
        wait_for(lambda: "waiting for it" in said(), "the first try")
        engine = sql.create_engine(
            url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as db:
            db.exec_driver_sql(f'CREATE DATABASE "{sql.make_url(away).database}"')
        engine.dispose()
        wait_for(lambda: "listening at" in said() or server.poll() is not None, "the service")
        assert server.poll() is None, said()
    finally:
        server.kill()
        server.wait()


def test_log_lines_as_json(caplog):
    record = logging.LogRecord("pgc.service", logging.WARNING, "", 0, "%d ε", (3,), None)
    record.request = "12345678"
    line = json.loads(AsJson().format(record))
    assert (line["message"], line["level"], line["request"]) == ("3 ε", "warning", "12345678")


def test_a_label_that_is_none(tmp_path):
    database = Database(sqlite_url(tmp_path / "s.db"))
    for wrong in (dict(batch=""), dict(batch="a\nb"), dict(batch="a" * 65), dict(seconds=-1.0)):
        with pytest.raises(PgcError):
            issue_tokens(database, 1, 1, **wrong)
    database.close()


def test_a_browser_gives_the_secret_as_a_password(operator):
    basic = {"authorization": "Basic " + base64.b64encode(b"me:secret").decode()}
    assert (
        operator("GET", "/", basic).status_code
        == operator("GET", "/v1/status", basic).status_code
        == 200
    )
    assert operator("GET", "/", {"authorization": "Basic ???"}).status_code == 401
    refused = operator("GET", "/", {})
    assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Basic")
