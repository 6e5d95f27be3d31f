"""What the tests of pgc over Flower share: Flower's messages without a SuperLink, and an offer."""

import importlib.util

import numpy as np
import pytest
from pgc.mechanisms import make_mechanism

import pgc

if (
    importlib.util.find_spec("flwr") is None
):  # its pins exclude those of the other tests: see the Makefile
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Messages name the task they are of, which only a SuperLink would set; marks go to a folder."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setenv("PGC_STATE", str(tmp_path / "marks"))


@pytest.fixture
def context():
    from flwr.app import Context, RecordDict

    return Context(
        run_id=1, node_id=1, node_config={"partition-id": 0}, state=RecordDict(), run_config={}
    )


@pytest.fixture
def make_offer():
    def make(number=1, epsilon=0.5, dim=6, score_epsilon=0.0):
        mechanism = make_mechanism("index", dim=dim, epsilon=epsilon, clip=1.0)
        query = pgc.Query.of(mechanism, score_epsilon=score_epsilon)
        theta = np.arange(dim, dtype=np.float32)
        return pgc.Offer(offer_id=number, policy_version=3, query=query, theta=theta)

    return make
