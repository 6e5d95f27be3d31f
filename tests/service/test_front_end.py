"""A front end is small: it hands out bytes that the process which updates made, and computes nothing itself."""

import json
import os
import re
import signal
import subprocess
import sys

import httpx

from pgc.config import configure
from pgc.service import store
from pgc.service.alone import Alone
from pgc.service.database import sqlite_url
from pgc.service.keeper import Keeper
from tests.service.test_service import free_port, start
from tests.waiting import LIMIT, wait_for

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=5, local_episodes=2)
OPERATOR = {"authorization": "Bearer secret"}


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


def updater_of(server) -> int:
    """The process id of the process that updates beside a server."""
    told = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(server.pid)], capture_output=True, text=True, check=True
    )
    return int(told.stdout.split()[0])


def test_the_process_that_updates_is_started_again(tmp_path):
    """Killed at any moment; and it never outlives its front end, however that ends."""
    server = start(tmp_path / "service", free_port())
    try:
        first = updater_of(server)
        os.kill(first, signal.SIGKILL)

        def another():
            told = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(server.pid)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            return next((int(pid) for pid in told.stdout.split() if int(pid) != first), None)

        second = wait_for(another, "another process that updates")
    finally:
        server.kill()
        server.wait()
    wait_for(lambda: not os.path.exists(f"/proc/{second}"), "the end of the second")


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
