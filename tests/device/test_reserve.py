"""Charge before play: no outcome of training is free, goes unanswered, or is told by a refusal."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pgc.device.device import Device, Refusal, Unanswered
from pgc.device.ledger import Ledger, LedgerError, OtherOffer, look
from pgc.wire import Report
from tests.chance import agrees, differs
from tests.waiting import LIMIT
from tests.wire.samples import KINDS, make_offer

DIGEST = bytes(32)


class Plays:
    """A player that does what it is told to."""

    def __init__(self, work):
        self.work, self.plays = work, 0

    def objection(self, offer):
        return None

    def play(self, offer, stop):
        self.plays += 1
        return self.work(offer, stop)


def device_that(tmp_path, work, **settings):
    settings = {"slot_seconds": 0, **settings}
    return Device.create(tmp_path / "l.db", 100.0, player=Plays(work), **settings)


def test_a_device_has_paid_when_play_begins(tmp_path):
    seen = []

    def work(offer, stop):
        db = sqlite3.connect(tmp_path / "l.db")
        seen.append(
            db.execute("SELECT spent, sealed, length(report) FROM budget, reports").fetchone()
        )
        db.close()
        return np.ones(6), True

    offer = make_offer("index")
    report = device_that(tmp_path, work).answer(offer)
    assert seen == [
        (offer.query.cost, 0, len(report))
    ]  # charged, not sealed, as long as the report


KILLED = """
import os, signal, sys
import numpy as np
from pgc.device import Device
from tests.device.test_reserve import Plays
from tests.wire.samples import make_offer

def work(offer, stop):
    if sys.argv[2] == "memory":
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))
        return np.ones(10**9)
    os.kill(os.getpid(), signal.SIGKILL)

device = Device.open(sys.argv[1], player=Plays(work), slot_seconds=0)
sys.stdout.buffer.write(device.answer(make_offer("index")))
"""


@pytest.mark.parametrize("how", ["killed", "memory"])
def test_a_home_in_which_training_is_killed_pays_and_answers(tmp_path, how):
    """The hole: killed for memory while it played, a device was not charged and could be asked again, for ever."""
    Device.create(tmp_path / "l.db", 100.0)
    made = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "l.db", how],
        capture_output=True,
        cwd=Path(__file__).parents[2],
        timeout=LIMIT,
    )
    offer = make_offer("index")
    assert (made.returncode == -signal.SIGKILL) == (how == "killed"), made.stderr
    assert look(tmp_path / "l.db").spent == offer.query.cost
    again = Plays(lambda *_: (np.ones(6), True))
    device = Device.open(tmp_path / "l.db", player=again, slot_seconds=0)
    report = device.answer(offer)
    assert isinstance(report, bytes) and again.plays == 0  # no second look at private data
    assert made.stdout in (b"", report) and device.answer(offer) == report
    assert device.balance.spent == offer.query.cost


def leaking(offer, stop):
    """Plays, and opens files until the system has no more for this process."""
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        LEAKED.extend(taken)
    return np.ones(6), True


LEAKED: list[int] = []


def test_a_world_that_takes_every_file_does_not_silence_its_device(tmp_path):
    """The hole: sealing opens a journal, could not, and the home in which files leaked refused, charged."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    device = device_that(tmp_path, leaking)
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 64, before[1])
        )
        report = device.answer(make_offer("index"))
    finally:
        for file in LEAKED:
            os.close(file)
        leaked = len(LEAKED)
        LEAKED.clear()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert isinstance(report, bytes) and leaked > 20
    assert device.answer(make_offer("index")) == report


def test_an_answer_that_cannot_be_stored_is_tried_again_and_is_never_a_refusal(
    tmp_path, monkeypatch
):
    """A refusal says that nothing was played: a disk that play filled must not become one."""
    device, full = device_that(tmp_path, lambda *_: (np.ones(6), True)), [1]
    seal = Ledger.seal

    def failing_seal(self, *given):
        if full:
            full.pop()
            raise LedgerError("the ledger cannot be used (database or disk is full)")
        return seal(self, *given)

    monkeypatch.setattr(Ledger, "seal", failing_seal)
    report = device.answer(make_offer("index"))
    assert isinstance(report, bytes)
    full += [1] * 100
    with pytest.raises(Unanswered, match="is paid for, and its answer cannot be stored"):
        device.answer(make_offer("duchi", offer_id=2))
    full.clear()
    late = device.answer(make_offer("duchi", offer_id=2))
    assert isinstance(late, bytes) and device.balance.reports == 2
    assert device._player.plays == 2  # asked again, it does not play again


def failing(offer, stop):
    raise OSError("stuck")


OUTCOMES = {
    "a report": lambda *_: (np.ones(6), True),
    "an exception": failing,
    "nonsense": lambda *_: "nonsense",
    "no success": lambda *_: (np.ones(6), None),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_outcome_costs_the_same_and_is_as_long(tmp_path, kind, outcome):
    device = device_that(tmp_path, OUTCOMES[outcome])
    offer = make_offer(kind, score_epsilon=0.25)
    report = device.answer(offer)
    assert isinstance(report, bytes) and Report.decode(report, offer).score_bit is not None
    assert len(report) == len(
        device.release(make_offer(kind, score_epsilon=0.25, offer_id=9), None)
    )
    assert device.balance.spent == 2 * offer.query.cost


def test_the_blank_report_has_the_law_of_the_mechanism_for_some_input(tmp_path):
    """Of a gradient of zeros and no success; the laws of other inputs are told from it."""
    devices = [
        Device.create(tmp_path / name, 1000.0, player=Plays(failing), slot_seconds=0)
        for name in ("a.db", "b.db")
    ]
    n, true, up = 1500, 0, 0
    for i in range(n):
        offer = make_offer("duchi", epsilon=0.01, score_epsilon=1.0, offer_id=i)
        made = Report.decode(devices[i % 2].answer(offer), offer)
        true += made.score_bit
        up += bool(made.code[0])
    false = 1 / (1 + np.e)  # the noisy boolean of False
    assert agrees(stats.binomtest(true, n, false).pvalue) and differs(
        stats.binomtest(true, n, 1 - false).pvalue
    )
    assert agrees(stats.binomtest(up, n, 0.5).pvalue) and differs(
        stats.binomtest(up, n, 0.7).pvalue
    )


def test_success_that_is_missing_is_no_refusal(tmp_path):
    """The hole: `release(offer, None, success=None)` refused, free of charge, where a trained one answered."""
    device = Device.create(tmp_path / "l.db", 10.0)
    offer = make_offer("duchi", score_epsilon=0.1)
    assert isinstance(device.release(offer, None, success=None), bytes)
    assert device.balance.spent == offer.query.cost


def test_reserve_before_training_and_release_after_it(tmp_path):
    device, offer = Device.create(tmp_path / "l.db", 3.0), make_offer("laplace")
    assert device.reserve(offer) is None and device.balance.spent == offer.query.cost
    report = device.release(offer, np.ones(6))
    assert device.balance.spent == offer.query.cost
    assert device.reserve(offer) == report == device.release(offer, -np.ones(6))


def test_a_reservation_that_crossed_a_crash_is_answered_with_what_was_stored(tmp_path):
    offer = make_offer("laplace")
    assert Device.create(tmp_path / "l.db", 3.0).reserve(offer) is None
    after = Device.open(tmp_path / "l.db")
    report = after.reserve(offer.encode())
    assert isinstance(report, bytes)
    assert (
        after.release(offer, np.ones(6)) == report == Device.open(tmp_path / "l.db").reserve(offer)
    )
    assert after.balance.spent == offer.query.cost


def test_reserve_refuses_what_release_refuses(tmp_path):
    device = Device.create(tmp_path / "l.db", 0.5)
    assert isinstance(device.reserve(make_offer("duchi")), Refusal)
    assert isinstance(device.reserve(b"nonsense"), Refusal)
    assert device.balance.spent == 0


def test_what_left_is_sealed_and_never_changes(tmp_path):
    """Replacing is a compare-and-swap on "not sealed": of two processes, the one that hands out bytes first decides."""
    one, two = Ledger.create(tmp_path / "l.db", 1.0), Ledger.open(tmp_path / "l.db")
    assert one.reserve(1, DIGEST, 10, b"blank") is None
    assert two.reserve(1, DIGEST, 10, b"other") == b"blank"  # seals
    assert one.seal(1, DIGEST, b"trained") == b"blank" == two.answered(1, DIGEST)
    assert one.reserve(2, DIGEST, 10, b"blank") is None
    assert one.seal(2, DIGEST, b"trained") == b"trained" == two.seal(2, DIGEST, b"late")
    with pytest.raises(LedgerError, match="was not reserved"):
        one.seal(3, DIGEST, b"trained")
    with pytest.raises(OtherOffer):
        one.seal(2, b"\1" * 32, b"trained")
    assert one.balance.spent == 20


def test_play_that_does_not_end_is_answered_at_the_deadline(tmp_path):
    """And while it has not stopped, the next offer is answered without it."""
    release = threading.Event()
    asked = []

    def work(offer, stop):
        release.wait(LIMIT)
        asked.append(stop())
        return np.ones(6), True

    device = device_that(tmp_path, work, slot_seconds=0.2)
    reports = [device.answer(make_offer("duchi", offer_id=n)) for n in range(2)]
    assert all(isinstance(report, bytes) for report in reports) and device._player.plays == 1
    release.set()
    device._slot._playing.join(LIMIT)
    assert asked == [True]  # it was told to stop
    assert [device.answer(make_offer("duchi", offer_id=n)) for n in range(2)] == reports


def test_the_ledger_records_that_slots_were_off(tmp_path):
    device = device_that(tmp_path, OUTCOMES["a report"], slot_seconds=0.1)
    device.answer(make_offer("duchi", offer_id=1))
    assert device.balance.untimed == 0
    Device.open(tmp_path / "l.db", player=Plays(OUTCOMES["a report"]), slot_seconds=0).answer(
        make_offer("duchi", offer_id=2)
    )
    assert look(tmp_path / "l.db").untimed == 1
