"""Ray: what it needs, and the same bits on a real cluster of two nodes, one of which is killed."""

import json
import subprocess
import sys

import pytest

from tests.cli.test_cli import refused
from tests.waiting import LIMIT


def test_a_missing_extra_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = refused(
        capsys, "train", "--engine", "ray", "--submissions", "20", "--out", tmp_path / "run"
    )
    assert "pip install 'pgc[ray]'" in said
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    said = refused(capsys, "train", "--world", "gymnasium:Nothing-v0")
    assert "pip install 'pgc[gymnasium]'" in said


@pytest.mark.extra
def test_a_cluster_that_cannot_be_reached_is_one_line(capsys, tmp_path):
    said = refused(
        capsys,
        "train",
        "--engine",
        "ray",
        "--address",
        "127.0.0.1:1",
        "--submissions",
        "20",
        "--out",
        tmp_path / "run",
    )
    assert "no Ray cluster answers at 127.0.0.1:1" in said
    said = refused(
        capsys,
        "frontier",
        "--engine",
        "ray",
        "--address",
        "nonsense",
        "--out",
        tmp_path / "frontier",
        "--quick",
    )
    assert "no Ray cluster answers at nonsense" in said


@pytest.mark.extra
def test_two_nodes_one_of_which_is_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.ray_cluster", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    lost = {key: said.pop(key) for key in ("slow lost", "compiled lost")}
    assert all(said.values()), said
    assert all(n >= 1 for n in lost.values()), lost
