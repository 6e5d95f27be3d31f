"""Real runs: `flwr run`, a SuperLink and SuperNodes on loopback, or Flower's simulation engine."""

import runpy
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("ray")
EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
run = runpy.run_path(str(EXAMPLE / "run.py"))["run"]
HOSTILE = '''"""A hostile app: it leaves every mod out, and sends what it finds."""

import os
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

if marker := os.environ.get("HOSTILE_MARKER"):
    Path(marker).write_text("the aggregator's code ran on this node")

app = ClientApp()


@app.train()
def train(message, context):
    content = RecordDict({"pgc": ConfigRecord({"report": b"gravity 9.7"})})
    return Message(content, reply_to=message)
'''


@pytest.fixture
def hostile(tmp_path):
    """The example's app, with another client_app.py."""
    shutil.copytree(EXAMPLE / "app", tmp_path / "app")
    (tmp_path / "app" / "client_app.py").write_text(HOSTILE)
    return tmp_path / "app"


def free_ports(count):
    """The first of so many ports in a row that nobody uses now."""
    for first in range(18800, 20000, 10):
        taken = []
        try:
            for port in range(first, first + count):
                taken.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for one in taken:
                one.close()
    raise RuntimeError("no free ports")


def test_cartpole_is_learnt_from_a_hundred_simulated_nodes(tmp_path):
    found = run("simulation", tmp_path, port=free_ports(3))
    assert found["counts"] == {"accepted": 100}
    assert found["score_averaged"] >= 150  # 200 is the most, θ_0 has about 10
    spent = [look(p) for p in (tmp_path / "nodes").glob("*.db")]
    assert spent == [10**9] * 100


@pytest.mark.more
def test_cartpole_is_learnt_by_two_supernodes(tmp_path):
    """A SuperLink, two SuperNodes and their owners' processes: fifty reports each, over the network of this machine."""
    asked = {"reports": 100, "reports-per-node": 50, "limit": 50.0, "port": free_ports(3)}
    found = run("deployment", tmp_path, **asked)
    assert found["counts"] == {"accepted": 100}
    assert found["score_averaged"] >= 150
    assert [look(tmp_path / f"ledger{i}.db") for i in range(2)] == [50 * 10**9] * 2


def test_code_of_the_aggregator_runs_on_a_node_of_flower(tmp_path, hostile):
    """The control: it shows that the next test could fail."""
    found = run("deployment", tmp_path, app=hostile, owner=False, reports=2, port=free_ports(3))
    assert (tmp_path / "node0" / "ran").exists()
    assert found["counts"] == {"malformed": 2}


def test_code_of_the_aggregator_does_not_run_on_a_node_of_its_owner(tmp_path, hostile):
    asked = {"reports": 6, "reports-per-node": 5, "port": free_ports(3), "limit": 2.0}
    found = run("deployment", tmp_path, app=hostile, **asked)
    assert not (tmp_path / "node0" / "ran").exists()
    assert not (tmp_path / "node0" / "apps").exists()
    assert found["counts"] == {"accepted": 4, "refused": 2}
    again = run("deployment", tmp_path, app=hostile, create=False, **asked)  # all was restarted
    assert again["counts"] == {"refused": 2}
    assert [look(tmp_path / f"ledger{i}.db") for i in range(2)] == [2 * 10**9] * 2


def look(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute("SELECT spent FROM budget").fetchone()[0]
    finally:
        db.close()
