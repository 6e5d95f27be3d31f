"""`pgc inspect` and `pgc account` as a reviewer would use them. (`pgc audit` is in tests/audit.)"""

import json

import numpy as np
import pytest

from pgc.cli.main import main
from pgc.device.device import Device
from tests.wire.samples import KINDS, make_offer


def run(capsys, *arguments, code=0):
    assert main([str(a) for a in arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


@pytest.fixture
def files(tmp_path):
    device = Device.create(tmp_path / "ledger.db", 5.0)
    for kind in KINDS:
        if "unbiased" in kind:
            continue
        offer = make_offer(
            kind, columns=3, score_epsilon=0.25, epsilon=0.25, offer_id=list(KINDS).index(kind)
        )
        name = kind.replace(", ", "-")
        (tmp_path / f"{name}.offer").write_bytes(offer.encode())
        report = device.release(offer, np.ones(6), success=True)
        assert isinstance(report, bytes)
        (tmp_path / f"{name}.report").write_bytes(report)
    return tmp_path


@pytest.mark.parametrize("kind", ["laplace", "prs", "index", "index, lifted", "duchi"])
def test_inspect_explains_offers_and_reports(files, capsys, kind):
    name = kind.replace(", ", "-")
    said = run(capsys, "inspect", files / f"{name}.offer")
    for words in (
        "an offer of",
        "ε = 0.5",
        kind.partition(",")[0],
        "3 coordinates in a public subspace",
        "0.25-LDP",
    ):
        assert words in said, said
    alone = run(capsys, "inspect", files / f"{name}.report")
    assert "all that left a device" in alone and "--offer FILE" in alone
    whole = run(capsys, "inspect", files / f"{name}.report", "--offer", files / f"{name}.offer")
    assert "randomised response" in whole and "0.25-LDP" in whole and "nothing" not in whole
    assert (
        json.loads(run(capsys, "inspect", files / f"{name}.offer", "--json"))["policy version"] == 7
    )


def test_inspect_explains_a_ledger(files, capsys):
    said = json.loads(run(capsys, "inspect", files / "ledger.db", "--json"))
    reports = len([kind for kind in KINDS if "unbiased" not in kind])
    assert (
        said["nano_epsilon"]["spent"] == reports * 500_000_000
        and f"{reports} report(s)" in said["spent"]
    )
    assert f"{reports} of the {reports} report(s) had no slot" in said["time"]


def test_inspect_says_what_is_wrong(files, tmp_path, capsys):
    (tmp_path / "text").write_text("hello")
    assert "is no offer, report, ledger, run or store" in run(
        capsys, "inspect", tmp_path / "text", code=2
    )
    assert "cannot read" in run(capsys, "inspect", tmp_path / "missing", code=2)
    assert "no privacy.json" in run(capsys, "inspect", tmp_path, code=2)
    (tmp_path / "cut").write_bytes((files / "duchi.offer").read_bytes()[:-3])
    assert "ends after" in run(capsys, "inspect", tmp_path / "cut", code=2)
    assert "cannot read" in run(
        capsys, "inspect", files / "duchi.report", "--offer", tmp_path / "missing", code=2
    )
    wrong = run(
        capsys, "inspect", files / "duchi.report", "--offer", files / "laplace.offer", code=2
    )
    assert "answers offer" in wrong


def test_inspect_explains_a_run(tmp_path, capsys):
    (tmp_path / "privacy.json").write_text(
        json.dumps({"mechanism": "index", "epsilon": 1.0, "not_protected": ["a", "b"]})
    )
    said = run(capsys, "inspect", tmp_path)
    assert "a run folder" in said and "index" in said and said.count("\n") == 5


def test_account(capsys):
    values = json.loads(
        run(
            capsys,
            "account",
            "--epsilon-per-submission",
            0.1,
            "--score-epsilon-per-submission",
            0.05,
            "--submissions-per-agent",
            10,
            "--json",
        )
    )
    assert values["total_basic"] == pytest.approx(1.5) and values["total_optimal"] == pytest.approx(
        1.3600514, abs=1e-6
    )
    assert (
        values["total_optimal"] <= values["total_pld"] <= 1.03 * values["total_optimal"]
        and "shuffled_epsilon" not in values
    )
    planned = json.loads(
        run(capsys, "account", "--epsilon", 1, "--submissions-per-agent", 100, "--json")
    )
    assert planned["largest_epsilon_basic"] == pytest.approx(0.01, abs=1e-8)
    assert planned["largest_epsilon_optimal"] == pytest.approx(0.0240, abs=1e-4)


def test_account_prints_shuffling_only_with_its_assumptions(capsys):
    refused = run(capsys, "account", "--shuffled", 1000, code=2)
    assert (
        "no amplification by shuffling for asynchronous arrival" in refused and "0.1" not in refused
    )
    said = run(capsys, "account", "--shuffled", 1000, "--arrival", "batched")
    assert "0.148" in said and "does not work with the aggregator" in said and "at most |B|" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--epsilon-per-submission", "0"], "--epsilon-per-submission must be between"),
        (["--submissions-per-agent", "0"], "--submissions-per-agent must be at least 1"),
        (["--delta", "0"], "--delta must be between 0 and 1"),
        (["--epsilon", "-1"], "--epsilon must be between"),
        (["--epsilon", "1", "--epsilon-per-submission", "1"], "give either"),
        (["--epsilon", "x"], "pgc account --help lists the flags"),
    ],
)
def test_account_says_what_is_wrong(capsys, arguments, reason):
    assert reason in run(capsys, "account", *arguments, code=2)
