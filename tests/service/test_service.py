"""The service over a real network: uvicorn with TLS on loopback, real devices with ledgers, the commands as a user runs them."""

import asyncio
import base64
import contextlib
import http.server
import importlib
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter

import httpx
import numpy as np
import pytest
import sqlalchemy
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from pgc.cli.main import main
from pgc.config import configure
from pgc.device.device import Device
from pgc.device.ledger import look
from pgc.errors import PgcError
from pgc.service.accepting import BoundedServer
from pgc.service.alone import Alone
from pgc.service.app import make_app
from pgc.service.asking import Surrounded
from pgc.service.client import ServiceClient
from pgc.service.creating import create_at
from pgc.service.database import Database, sqlite_url
from pgc.service.history import Rollback, ask_rollback
from pgc.service.keeper import BEHIND, issue_tokens
from pgc.service.metrics import Metrics
from pgc.service.operating import make_operator_app
from pgc.service.protocol import BoundedProtocol
from pgc.service.replay import replay
from pgc.service.server import listen
from pgc.service.tls import make_dev_certificates
from pgc.service.watch import Watch
from pgc.wire import Offer
from pgc.wire.offer import LARGEST_OFFER
from tests.length import length
from tests.waiting import LIMIT, wait_for

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=5, local_episodes=2)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    keeper = Alone(sqlite_url(folder / "store.db"))
    keeper.create("default", CONFIG)
    files, port = make_dev_certificates(folder, "127.0.0.1"), free_port()
    watch = Watch(keeper)
    config = uvicorn.Config(
        Surrounded(make_app(keeper, watch), lambda *_: None),
        log_level="warning",
        ssl_certfile=str(files.certificate),
        ssl_keyfile=str(files.key),
    )
    server = BoundedServer(config, BoundedProtocol)
    sockets = [listen("127.0.0.1", port)]
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    wait_for(lambda: server.started, "the service")
    yield keeper, f"https://127.0.0.1:{port}", str(files.ca)
    server.should_exit = True
    thread.join()
    watch.close()
    keeper.close()
    keeper.close()


def test_a_whole_cycle(service, tmp_path, rng):
    keeper, url, ca = service
    [token] = keeper.issue_tokens(1, submissions=2)
    device = Device.create(tmp_path / "l.db", 5.0)
    with ServiceClient(url, token, ca=ca) as client:
        assert client.card()["epsilon_per_report"] == 1.0
        for _ in range(2):
            offer = client.offer()
            assert client.offer() == offer  # whoever asks again gets the same
            report = device.release(offer, rng.standard_normal(len(Offer.decode(offer).theta)))
            assert [client.submit(report), client.submit(report)] == ["accepted", "duplicate"]
        assert client.offer() is None


def test_every_refusal_has_its_status(service, tmp_path, rng):
    keeper, url, ca = service
    [token, other] = keeper.issue_tokens(2, submissions=1)
    with ServiceClient(url, token, ca=ca) as client:
        http = client._http
        offer = client.offer()
        report = Device.create(tmp_path / "l.db", 5.0).release(
            offer, rng.standard_normal(len(Offer.decode(offer).theta))
        )
        path, mine = "/v1/models/default/reports", http.headers["authorization"]
        for status, where, body, authorization in (
            (401, path, report, "Bearer nonsense"),
            (401, path, report, "Basic abc"),
            (401, path, report, f"Bearer {'x' * 500}"),
            (404, "/v1/models/nowhere/reports", report, mine),
            (404, path, report, f"Bearer {other}"),
            (404, path, report[:1] + bytes(8) + report[9:], mine),
            (400, path, report[:-1], mine),
            (400, path, b"", mine),
            (400, path, b"\0" + report[1:], mine),
            (413, path, report + bytes(100), mine),
            (405, path.replace("reports", "offers") + "?x=1", None, mine),
            (200, path, report, mine),
            (409, path, report[:-1] + bytes([report[-1] ^ 1]), mine),
        ):
            answer = (
                http.get(where)
                if body is None
                else http.post(where, content=body, headers={"authorization": authorization})
            )
            assert answer.status_code == status, (status, answer.status_code, answer.text)
            assert answer.json()["detail"]
    assert httpx.get(f"{url}/health", verify=False).json() == {"status": "ok"}
    assert httpx.get(f"{url}/ready", verify=False).status_code == 200


def test_a_service_that_is_not_trusted_is_not_talked_to(service):
    _, url, _ = service
    with (
        ServiceClient(url, "token") as client,
        pytest.raises(PgcError, match="certificate is not signed"),
    ):
        client.offer()
    for elsewhere in (
        "http://example.org",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org:80",
        "ftp://x",
    ):
        with pytest.raises(PgcError, match="is not https"):
            ServiceClient(elsewhere, "token")


def test_a_service_that_is_away_is_waited_for_and_given_up(monkeypatch):
    """Pauses double, up to half of themselves more or less, until the next one would outlast the patience."""
    slept, between = [], []

    def uniform(low, high):
        between.append((low, high))
        return 1.0

    monkeypatch.setattr("pgc.service.client.CHANCE.uniform", uniform)
    monkeypatch.setattr("pgc.service.client.LONGEST_PAUSE", 10_000.0)
    with (
        ServiceClient(
            f"http://127.0.0.1:{free_port()}", "token", patience=1000, sleep=slept.append
        ) as client,
        pytest.raises(PgcError, match=r"gave up on .* after 1000 s: .*refused"),
    ):
        client.offer()
    assert (
        slept == [0.2 * 2**n for n in range(13)][: len(slept)]
        and len(slept) >= 12
        and set(between) == {(0.5, 1.5)}
    )


def start(folder, port, url=None, *more, tls=True, https=None):
    """`pgc serve`, in a process of its own; `https` says whether it uses TLS without --dev-tls."""
    https = tls if https is None else https
    command = [
        sys.executable,
        "-m",
        "pgc.cli",
        "serve",
        str(folder),
        "--port",
        str(port),
        *(["--dev-tls"] if tls else []),
        *more,
    ]
    log = folder.parent / f"log{port}"
    with log.open("a") as out:
        environment = os.environ | ({} if url is None else {"PGC_STORE": url})
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)

    def ready():
        with contextlib.suppress(httpx.TransportError):
            where = f"{'https' if https else 'http'}://127.0.0.1:{port}/ready"
            return httpx.get(where, verify=False).status_code == 200

    def lives():
        assert process.poll() is None, log.read_text()

    wait_for(ready, "the service", lives)
    return process


def card_of(port, received):
    """The model's card, once it counts so many reports: it says what was known at the last look at the store."""

    def card():
        said = httpx.get(f"https://127.0.0.1:{port}/v1/models/default", verify=False).json()
        assert said["received"] <= received
        return said if said["received"] == received else None

    return wait_for(card, f"{received} reports in the card")


def test_serve_tokens_join(tmp_path, capsys, monkeypatch):
    """Three commands; the service killed in between; the devices started again; and what they do with mistakes."""
    folder, port = tmp_path / "service", free_port()
    server = start(folder, port)
    try:
        assert main(["tokens", "issue", str(folder), "--count", "2", "--json"]) == 0
        tokens = json.loads(capsys.readouterr().out)["tokens"]
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        server = start(folder, port)
        url, ca = f"https://127.0.0.1:{port}", ["--ca", str(folder / "ca.pem")]
        join = ["join", url, *ca, "--leak-timing", "--json"]
        for n, token in enumerate(tokens):
            (tmp_path / f"{n}").write_text(token)
            path = str(tmp_path / f"{n}.db")
            device = [*join, "--ledger", path, "--device-id", f"serial {n}"]
            device += ["--token-file", str(tmp_path / f"{n}")]
            assert main(device) == 2  # no ledger, and a missing one is not made
            assert "pgc provision (Device.create in Python) makes one" in capsys.readouterr().err
            for code in (0, 2):  # once in its life
                made = main(["provision", path, "--limit", "1", "--device-id", f"serial {n}"])
                assert made == code
            assert "this device has a ledger" in capsys.readouterr().err
            if n == 0:
                monkeypatch.setenv("PGC_TOKEN", token)
                assert main(["slot", url, *ca, "--json", "--plays", "2"]) == 0
                measured = json.loads(capsys.readouterr().out)
                assert measured["slot"] >= 2 * measured["longest_play"] > 0
                assert main([*device, "--recipe", "0" * 16]) == 2
                assert f"recipe is {measured['recipe']}" in capsys.readouterr().err
                device += ["--recipe", measured["recipe"]]
            for accepted in (1, 0):  # the same command again: the token is used up
                assert main(device) == 1 - accepted
                assert json.loads(capsys.readouterr().out) == {
                    "accepted": accepted, "epsilon_left": 0.0,
                    "ended": [{"devices": 1, "why": "this token's reports are used up"}],
                }  # fmt: skip
        card = card_of(port, received=2)
        assert card["mechanism"] == "index" and card["world"] == "cartpole"
        assert main(["tokens", "revoke", str(folder), "--token-file", str(tmp_path / "0")]) == 0
        capsys.readouterr()
        monkeypatch.setenv("PGC_TOKEN", tokens[1])
        (tmp_path / "odd").write_text("é")
        (tmp_path / "empty").write_text("\n")
        for wrong, reason in (
            (
                ["--token-file", str(tmp_path / "0"), "--ledger", str(tmp_path / "0.db")],
                "this token was revoked",
            ),
            (["--world", "acrobot"], "trains for cartpole"),
            (["--model", "none"], "has no model 'none'"),
            (["--token-file", str(tmp_path / "odd")], "that is no token"),
            (["--token-file", str(tmp_path / "empty")], "there is no token in"),
            (["--tokens", str(tmp_path / "none")], "cannot read tokens"),
            (["--devices", "3"], "need as many tokens"),
            (["--new-ledger", "--limit", "1"], "a device gets its ledger once: pgc provision"),
            (["--tokens", str(tmp_path / "1"), "--device-id", "x"], "are for one device"),
            (["--tokens", str(tmp_path / "1"), "--new-ledger"], "new ledgers need a limit"),
        ):
            assert main([*join, *wrong]) == 2
            assert reason in capsys.readouterr().err
        monkeypatch.delenv("PGC_TOKEN")
        assert main(join) == 2 and "set PGC_TOKEN, or give --token-file" in capsys.readouterr().err
        assert main(["tokens", "count", str(folder)]) == 0
        told = "0 usable, for 0 reports; 1 used up; 1 revoked; 0 expired\n"
        assert capsys.readouterr().out == told
        assert main(["replay", str(folder)]) == 0
        assert (
            "2 reports make 1 versions; 1 of them are kept, and are the same to the bit"
            in capsys.readouterr().out
        )
    finally:
        server.kill()
        server.wait()


def test_several_devices_at_once(service, tmp_path, capsys):
    """Each with its own ledger and token; one of them is not admitted, and the others do not mind."""
    keeper, url, ca = service
    (tmp_path / "tokens").write_text(
        "\n".join([*keeper.issue_tokens(5, submissions=2), "nonsense"])
    )
    join = [
        "join",
        url,
        "--limit",
        "2",
        "--ca",
        ca,
        "--tokens",
        str(tmp_path / "tokens"),
        "--ledger",
        str(tmp_path / "l"),
        "--json",
    ]
    assert main([*join, "--new-ledger", "--seed", "1"]) == 2  # one of them failed
    said = json.loads(capsys.readouterr().out)
    assert said["accepted"] == 10 and said["epsilon_left"] == 0.0
    assert {e["why"]: e["devices"] for e in said["ended"]} == {
        "this token's reports are used up": 5, "the service refuses: unknown token": 1,
    }  # fmt: skip
    assert len(list((tmp_path / "l").iterdir())) == 6


def test_a_device_whose_clock_is_wrong(service, tmp_path, rng, monkeypatch):
    """It goes by the service's: a day ahead or behind, offers are answered and none is charged for in vain."""
    keeper, url, ca = service
    for ahead in (86_400, -86_400):
        [token] = keeper.issue_tokens(1, submissions=1)
        with ServiceClient(url, token, ca=ca) as client:
            offer = client.offer()
            device = Device.create(tmp_path / f"{ahead}.db", 1.0, clock=client.clock)
            monkeypatch.setattr("pgc.device.device.time.time", lambda ahead=ahead: 1.7e9 + ahead)
            report = device.release(offer, rng.standard_normal(len(Offer.decode(offer).theta)))
            monkeypatch.undo()
            assert client.submit(report) == "accepted"


def test_a_hostile_service_cannot_choose_code(service):
    """What a card says is data: names from fixed lists, and numbers."""
    from pgc.local_training.recipe import Recipe

    keeper, url, _ = service
    card = httpx.get(f"{url}/v1/models/default", verify=False).json()["recipe"]
    world = {"bounds": ((-1, 1),) * 4, "actions": 2, "max_steps": 200, "score_threshold": 195.0}
    assert Recipe.read(card, **world).card == keeper.model("default").recipe.card
    for wrong in (
        {"estimator": "os:system"}, {"hidden": [10**9]}, {"hidden": "os"}, {"hidden": [1.5]}, {"spread": float("inf")},
        {"spread": "1"}, {"biases": "yes"}, {"bounds": []}, {"discount": True}, {"estimator": ["evolution"]},
    ):  # fmt: skip
        with pytest.raises(PgcError, match="the service's recipe"):
            Recipe.read(card | wrong, **world)
    for wrong in (None, [], {}, {k: v for k, v in card.items() if k != "hidden"}):
        with pytest.raises(PgcError, match="the service's recipe"):
            Recipe.read(wrong, **world)


def test_back_pressure(service, monkeypatch):
    """More than can be applied soon: 429 with Retry-After, the client waits that long, and it is counted with its cause."""
    keeper, url, ca = service
    [token] = keeper.issue_tokens(1, submissions=1)
    slept, before = [], keeper.counts["offers", BEHIND]

    def sleep(seconds):
        slept.append(seconds)
        monkeypatch.undo()

    monkeypatch.setattr("pgc.service.keeper.MOST_BEHIND", -(10**9))  # so that all is too much
    answer = httpx.post(
        f"{url}/v1/models/default/offers",
        headers={"authorization": f"Bearer {token}"},
        verify=False,
    )
    assert answer.status_code == 429 and "wait for an update" in answer.json()["detail"]
    with ServiceClient(url, token, ca=ca, sleep=sleep) as client:
        assert len(client.offer()) > 100
    assert len(slept) == 1 and slept[0] >= int(answer.headers["retry-after"])
    assert keeper.counts["offers", BEHIND] == before + 2


def test_a_body_that_came_too_slowly_is_sent_again():
    """408 is for the network, and not for the report, which is paid for."""
    answers = iter(
        httpx.Response(status, stream=httpx.ByteStream(b'{"detail": "slow"}'))
        for status in (408, 200)
    )
    slept = []
    with ServiceClient("http://localhost", "token", sleep=slept.append) as client:
        client._http = httpx.Client(
            base_url="http://localhost", transport=httpx.MockTransport(lambda _: next(answers))
        )
        client.submit(b"report")
    assert len(slept) == 1


def test_a_store_that_cannot_be_written(service, monkeypatch):
    """503, not 500; the client tries again; and then it works."""
    keeper, url, ca = service
    [token] = keeper.issue_tokens(1, submissions=1)

    def broken(*_):
        raise sqlalchemy.exc.OperationalError("disk", {}, Exception("full"))

    monkeypatch.setattr("pgc.service.writer.admit", broken)
    answer = httpx.post(
        f"{url}/v1/models/default/offers",
        headers={"authorization": f"Bearer {token}"},
        verify=False,
    )
    assert (
        answer.status_code == 503
        and answer.headers["retry-after"] == "1"
        and "send the same again" in answer.text
    )
    with ServiceClient(url, token, ca=ca, sleep=lambda _: monkeypatch.undo()) as client:
        assert len(client.offer()) > 100


def test_the_examples(service, tmp_path, monkeypatch):
    keeper, url, ca = service
    monkeypatch.syspath_prepend("examples")
    embed = importlib.import_module("embed_device")
    [token] = keeper.issue_tokens(1, submissions=1)
    monkeypatch.setenv("PGC_TOKEN", token)
    Device.create(tmp_path / "l.db", 1.0, device_id="serial-7")
    said = embed.main(url, "serial-7", ledger=tmp_path / "l.db", ca=ca, slot=2.0)
    assert said == "1 report(s) accepted; this token's reports are used up"
    assert look(tmp_path / "l.db").untimed == 0


@pytest.mark.extra
def test_a_pytorch_policy_of_ones_own_learns(tmp_path, monkeypatch):
    """Through a real service that knows θ's length and nothing else of it. At ε = 8, so that chance has no say in it."""
    torch_policy = importlib.import_module("examples.torch_policy")
    monkeypatch.chdir(tmp_path)
    torch_policy.main("theta.npy")
    folder, port = tmp_path / "service", free_port()
    server = start(folder, port, None, "--theta", "theta.npy", "--epsilon", "8")
    try:
        database = Database(sqlite_url(folder / "store.db"))
        tokens = issue_tokens(database, 200, 1)
        policy = torch_policy.make_policy()
        before = torch_policy.mean_score(policy, np.load("theta.npy"))
        for n, token in enumerate(tokens):
            Device.create(tmp_path / f"{n}.db", 8.0)
            torch_policy.answer(
                f"https://127.0.0.1:{port}",
                token,
                tmp_path / f"{n}.db",
                policy,
                str(folder / "ca.pem"),
            )
        theta = replay(database, "default").state.theta
        after = torch_policy.mean_score(policy, np.array(theta))
        assert before < 30 and after > 60, (before, after)
        card = card_of(port, received=200)
        assert (card["numbers"], card["world"], card["recipe"]) == (10, None, None)
        database.close()
    finally:
        server.kill()
        server.wait()


def test_mistakes_are_one_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "theta.npy").write_bytes(b"nonsense")
    (tmp_path / "t").write_text("token")
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    keeper.create("default", CONFIG)
    keeper.close()
    one, other = (
        make_dev_certificates(tmp_path / "1", "localhost"),
        make_dev_certificates(tmp_path / "2", "localhost"),
    )
    busy = socket.create_server(("127.0.0.1", 0))
    taken = str(busy.getsockname()[1])
    for arguments, reason in (
        ([str(tmp_path), "--epsilon", "2"], "has --epsilon 1.0, for life"),
        ([str(tmp_path), "--model", "other"], "there is no model 'other'"),
        ([str(tmp_path), "--port", taken], f"cannot listen at 127.0.0.1:{taken}"),
        (
            [str(tmp_path), "--port", str(free_port()), "--operator-port", taken],
            f"cannot listen at 127.0.0.1:{taken}",
        ),
        ([str(tmp_path), "--port", "90000"], "between 1 and 65535"),
        (
            ["--certificate", str(one.certificate), "--key", str(other.key)],
            "no certificate with its key (KEY_VALUES_MISMATCH)",
        ),
        (
            ["--certificate", str(one.certificate), "--key", str(one.key), "--dev-tls"],
            "--dev-tls makes a certificate",
        ),
    ):
        assert main(["serve", *arguments]) == 2, arguments
        assert reason in capsys.readouterr().err, arguments
    busy.close()
    monkeypatch.setenv("PGC_TOKEN", "t")
    for arguments, reason in (
        (["serve", str(tmp_path / "a"), "--host", "0.0.0.0"], "can be reached by others"),
        (["serve", str(tmp_path / "a"), "--key", "x"], "go together"),
        (["serve", str(tmp_path / "a"), "--certificate", "x", "--key", "x"], "cannot read x"),
        (["serve", str(tmp_path / "a"), "--store", "mysql://x/y"], "a store is sqlite"),
        (["replay", "--store", "sqlite:///"], "names no file"),
        (
            [
                "join",
                "http://localhost",
                "--tokens",
                str(tmp_path / "t"),
                "--ledger",
                str(tmp_path / "t"),
                "--limit",
                "1",
            ],
            "no folder",
        ),
        (
            [
                "serve",
                str(tmp_path / "a"),
                "--store",
                "postgresql://x@127.0.0.1:1/y",
                "--wait-seconds",
                "0",
            ],
            "cannot be opened",
        ),
        (
            ["serve", str(tmp_path / "a"), "--theta", str(tmp_path / "theta.npy")],
            "as numpy.save wrote it",
        ),
        (["serve", str(tmp_path / "a"), "--config", str(tmp_path / "none")], "cannot read"),
        (["serve", str(tmp_path / "a"), "--offer-seconds", "0"], "at least 1"),
        (["tokens", "issue", str(tmp_path / "b")], "there is no service"),
        (["replay", str(tmp_path / "b")], "there is no service"),
        (["join", "http://example.org"], "is not https"),
        (["join", "nonsense"], "is not https"),
    ):
        assert main(arguments) == 2, arguments
        assert reason in capsys.readouterr().err, arguments


SECRET = {"authorization": "Bearer secret"}
BASIC = {"authorization": "Basic " + base64.b64encode(b"anyone:secret").decode()}


@pytest.fixture
def operator(service):
    """Asks the operator's application of that service."""
    keeper, _, _ = service
    watch = Watch(keeper)
    app = make_operator_app(keeper, watch, Metrics(keeper, watch), "secret")

    def ask(method, path, headers=SECRET, **more):
        async def asked():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers, timeout=LIMIT
            ) as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())

    yield ask
    watch.close()


def test_the_operators_interface(service, operator, tmp_path):
    keeper, url, ca = service
    [token] = keeper.issue_tokens(1, submissions=1)
    with ServiceClient(url, token, ca=ca) as client:  # so that there is a report to count
        offer = client.offer()
        client.submit(Device.create(tmp_path / "l.db", 5.0).release(offer, None))

    def attack(headers, path="/models/default/rollback/0"):
        return operator("POST", path, headers).status_code

    assert attack({}) == attack({"authorization": "Bearer other"}) == 401
    assert attack({"authorization": "Basic nonsense"}) == 401
    for headers in (
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
    ):  # a web page in the operator's browser
        assert attack(headers) == 403
    assert attack(SECRET) == attack(BASIC) == 400  # by whom, and why?
    for version in (-1, 2**63, 10**30, 123_456):
        assert attack(SECRET, f"/models/default/rollback/{version}?who=me&reason=test") == 404
    keeper.wait_until_applied()
    said = operator("GET", "/metrics").text
    received = keeper.model("default").received
    assert f'pgc_model_received{{model="default"}} {received}.0\n' in said
    assert 'pgc_requests_total{result="accepted",what="reports"}' in said
    families = list(text_string_to_metric_families(said))
    assert all(family.documentation for family in families) and len(families) > 15
    assert (
        httpx.post(f"{url}/models/default/rollback/0", verify=False).status_code == 404
    )  # devices cannot reach it
    assert httpx.get(f"{url}/metrics", verify=False).status_code == 404


def test_a_head_that_does_not_end(service, monkeypatch):
    """Is cut off, and nobody else waits; nor does a connection that closes in the middle of a report break anything."""
    _, url, ca = service
    monkeypatch.setattr(
        "pgc.service.protocol.SECONDS", 10 * LIMIT
    )  # so that nothing is cut off for being late
    address, context = httpx.URL(url), ssl.create_default_context(cafile=ca)

    def connection():
        return context.wrap_socket(
            socket.create_connection((address.host, address.port)), server_hostname=address.host
        )

    def is_cut_off(begins, goes_on):
        with connection() as s:
            s.settimeout(LIMIT)
            try:
                s.sendall(begins)
                for _ in range(200):
                    s.sendall(goes_on)
                return s.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

    assert is_cut_off(b"GET /", b"a" * 6000)
    assert is_cut_off(b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"a" * 6000)
    assert is_cut_off(b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 1000)
    with connection() as s:
        s.sendall(
            b"POST /v1/models/default/reports HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nContent-Length: 9\r\n\r\nabc"
        )
    assert httpx.get(f"{url}/health", verify=False).status_code == 200


def test_the_page_needs_nothing_from_elsewhere(service):
    _, url, _ = service
    page = httpx.get(url, verify=False).text
    assert "http://" not in page and "https://" not in page
    assert "//" not in httpx.get(f"{url}/docs", verify=False).text.replace("://", "")


@pytest.mark.more
def test_the_page(tmp_path):
    """Real Chromium, where it is installed, sees the numbers and the line of a real service while real devices report."""
    folder, port = tmp_path / "service", free_port()
    url, server, devices = (
        f"https://127.0.0.1:{port}",
        start(folder, port, None, "--score-epsilon", "0.3"),
        None,
    )
    try:
        at = sqlite_url(folder / "store.db")
        # a world that plays on the host, and one that nobody but its devices can play: the page died of both
        host = configure(world="gymnasium:CartPole-v1", epsilon=1.0, local_episodes=2)
        create_at(at, "host", host, None)
        create_at(at, "bare", configure(own_policy=4, epsilon=1.0), np.zeros(4, np.float32))
        with contextlib.closing(Database(at)) as database:
            (tmp_path / "tokens").write_text("\n".join(issue_tokens(database, 2000, 1)))
        join = [
            "join",
            url,
            "--tokens",
            str(tmp_path / "tokens"),
            "--limit",
            "1",
            "--new-ledger",
            "--at-once",
            "2",
        ]
        join += ["--ca", str(folder / "ca.pem"), "--ledger", str(tmp_path / "ledgers")]
        devices = subprocess.Popen(
            [sys.executable, "-m", "pgc.cli", *join], stderr=subprocess.DEVNULL
        )

        def points():
            made = httpx.get(f"{url}/v1/models/default/progress", verify=False).json()["points"]
            return made if sum(point["success"] is not None for point in made) > 1 else None

        points = wait_for(points, "two points of either curve")
        wish = Rollback("1" * 32, "default", 0, "ada", "a test", int(time.time()))
        with contextlib.closing(Database(at)) as database, database.writing() as db:
            ask_rollback(db, wish)

        def shown_to_all():
            made = httpx.get(f"{url}/v1/models/default/progress", verify=False).json()
            return (
                made["restored"]
                and len(httpx.get(f"{url}/v1/models", verify=False).json()["models"]) == 3
            )

        wait_for(shown_to_all, "the rollback, and all models")
        assert (
            points[-1]["reports"] > 0
            and 0 <= points[-1]["success"] <= 1
            and points[-1]["margin"] > 0
        )
        chromium = shutil.which("chromium")
        if chromium is None:
            pytest.skip("chromium is not installed")
        seen = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--ignore-certificate-errors", "--virtual-time-budget=4000", "--dump-dom", url],
            capture_output=True, text=True, timeout=LIMIT, check=True,
        ).stdout  # fmt: skip
        shown = re.sub("<script.*?</script>", "", seen, flags=re.DOTALL)
        assert "<dd>index</dd>" in shown and "<td>reports: accepted</td>" in shown
        assert shown.count("<polyline") == 2  # the score, and the share of devices that succeed
        assert all(f"<h2>{name}</h2>" in shown for name in ("bare", "default", "host"))
        assert "↶ 0" in shown and "the service does not answer" not in shown
    finally:
        for process in (devices, server):
            if process is not None:
                process.kill()
                process.wait()


def test_the_policy_is_public(service):
    from safetensors.numpy import load

    keeper, url, _ = service
    answer = httpx.get(f"{url}/v1/models/default/policy", verify=False)
    np.testing.assert_array_equal(
        load(answer.content)["theta"], np.asarray(keeper.model("default").state.theta)
    )


REQUESTS = length(1000, 20_000)


@pytest.mark.soak
def test_malformed_and_unauthorised_requests(service, tmp_path, rng):
    """All are refused with a reason; none changes θ; none is an error of the server."""
    keeper, url, ca = service
    [token] = keeper.issue_tokens(1, submissions=1)
    with ServiceClient(url, token, ca=ca) as client:
        offer = client.offer()
        report = Device.create(tmp_path / "l.db", 5.0).release(
            offer, rng.standard_normal(len(Offer.decode(offer).theta))
        )
        http, chance = client._http, random.Random(0)
        keeper.wait_until_applied()
        theta, received = (
            np.asarray(keeper.model("default").state.theta),
            keeper.model("default").received,
        )
        seen = Counter()
        for _ in range(REQUESTS):
            body = bytearray(report)
            for place in chance.sample(
                range(13), chance.randint(1, 3)
            ):  # in its header: any payload below M is a report
                body[place] ^= 1 << chance.randrange(8)
            body = (
                bytes(body)
                if chance.random() < 0.6
                else chance.randbytes(chance.choice((0, 1, 12, 15, 200)))
            )
            known = (
                token
                if chance.random() < 0.7
                else chance.choice(("-", "x", token[:-1], "é" * 10, token.upper(), "a" * 200))
            )
            path = chance.choice(
                ("default/reports",) * 6
                + ("default/offers", "../default/reports", "%00/reports", "x/reports")
            )
            answer = http.post(
                f"/v1/models/{path}",
                content=body,
                headers={"authorization": f"Bearer {known}".encode()},
            )
            seen[answer.status_code] += 1
            assert answer.status_code in (200, 400, 401, 404, 405, 409, 413, 307), (
                answer.status_code,
                answer.text,
            )
            assert answer.status_code != 200 or path == "default/offers", (
                path,
                answer.text,
            )  # its own offer again
        assert {400, 401, 404, 413} <= set(seen), seen
        keeper.wait_until_applied()
        np.testing.assert_array_equal(keeper.model("default").state.theta, theta)
        assert keeper.model("default").received == received
        assert client.submit(report) == "accepted"


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with what stands in `what`: status, headers, body."""

    what = (200, {}, b"")

    def do_GET(self):
        status, headers, body = type(self).what
        self.send_response(status)
        for name, value in ({"content-length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):  # the client may have heard enough
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def elsewhere():
    """The address of a service that is none, and a function that says what it answers."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", lambda *what: setattr(Answers, "what", what)
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_client_takes_no_more_from_a_service_than_an_offer_can_have(elsewhere):
    """What a hostile service may answer: more than fits, what unpacks into more, words for a terminal, and no card at all."""
    url, answers = elsewhere
    with ServiceClient(url, "token", patience=1000, sleep=lambda _: None) as client:
        for what, says in (
            (
                (200, {"content-encoding": "gzip"}, b"\x1f\x8b"),
                "does not answer as a pgc service does",
            ),
            ((200, {}, bytes(LARGEST_OFFER + 1)), "more than any offer has"),
            ((403, {}, b'{"detail": "\\u001b[2Jgone"}'), r"refuses: \?\[2Jgone"),
            ((400, {}, b"plain\nwords"), "refuses: plain words"),
        ):
            answers(*what)
            with pytest.raises(PgcError, match=says):
                client.offer()
        for body in (b"[1]", b"nonsense", b"[" * 100_000):
            answers(200, {"date": "yesterday"}, body)
            with pytest.raises(PgcError, match="does not answer as a pgc service does"):
                client.card()
        answers(404, {}, b'{"detail": "unknown offer"}')
        assert client.submit(b"report") == "unknown offer"
    for wrong, says in (
        (dict(url="http://127.0.0.1:x"), "is no address"),
        (dict(patience=-1.0), "patience is a number of seconds"),
    ):
        with pytest.raises(PgcError, match=says):
            ServiceClient(**{"url": url, "token": "token", **wrong})
