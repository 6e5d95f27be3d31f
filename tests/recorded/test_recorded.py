"""What an earlier version made is still read; and the same seed still gives the same bits."""

import json
import shutil

import numpy as np
import pytest

import pgc
from pgc.device.device import Device
from pgc.device.ledger import Ledger
from pgc.runs.machine import DECIDE_BITS, machine
from pgc.runs.run import Run
from pgc.service import store
from pgc.service.alone import Alone
from pgc.service.database import sqlite_url
from pgc.service.replay import replay
from pgc.wire import Offer, Report
from tests.recorded.configs import RUNS, bits, train
from tests.recorded.make import BITS, FILES

RECORDED = json.loads(BITS.read_text(encoding="utf-8"))


@pytest.mark.more
@pytest.mark.parametrize("name", RUNS)
def test_the_same_seed_gives_the_same_bits(name, tmp_path):
    """On the type of machine that made the record; elsewhere last bits differ."""
    if any(RECORDED["machine"][key] != machine()[key] for key in DECIDE_BITS):
        pytest.skip(
            f"recorded on {RECORDED['machine']['cpu']} with jaxlib {RECORDED['machine']['jaxlib']}"
        )
    assert bits(train(name, tmp_path / "run")) == RECORDED["runs"][name]


def test_a_finished_run_is_read():
    run = Run.open(FILES / "run")
    assert run.complete and run.summary["received"] == 20 and run.scores().shape == (1, 20)
    assert run.policies()["theta"].shape == (1, 112) and not np.isnan(run.scores()).any()


def test_a_stopped_run_is_continued(tmp_path):
    path = tmp_path / "stopped"
    shutil.copytree(FILES / "stopped", path)
    before = Run.open(path).scores()
    assert not Run.open(path).complete and 0 < np.isfinite(before).sum() < before.size
    run = pgc.train(resume=path)
    assert run.summary["received"] == before.size
    np.testing.assert_array_equal(run.scores()[np.isfinite(before)], before[np.isfinite(before)])


def test_a_ledger_answers_again_with_the_bytes_it_paid_for(tmp_path):
    shutil.copy(FILES / "ledger.db", tmp_path)
    device = Device(Ledger.open(tmp_path / "ledger.db"))
    answered = json.loads((FILES / "answered.json").read_text(encoding="utf-8"))
    spent = device.balance.spent
    assert device.balance.reports == len(answered) and spent == len(answered) * 500_000_000
    for kind, known in answered.items():
        offer, report = bytes.fromhex(known["offer"]), bytes.fromhex(known["report"])
        assert device.release(offer, -np.ones(6)) == report, kind
        assert Report.decode(report, Offer.decode(offer)).encode(Offer.decode(offer)) == report
    assert device.balance.spent == spent


def test_a_store_is_opened_and_its_reports_make_the_same_policy(tmp_path):
    shutil.copy(FILES / "store.db", tmp_path)
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    try:
        model = keeper.model("home")
        assert (model.received, model.version) == (8, 2)
        np.testing.assert_array_equal(np.asarray(model.state.theta), np.load(FILES / "theta.npy"))
        with keeper.database.reading() as db:
            assert len(db.execute(store.offers.select()).all()) == 1  # the one that was open
        made = replay(keeper.database, "home")
        assert made.reports == 8 and made.versions == 3
    finally:
        keeper.close()
