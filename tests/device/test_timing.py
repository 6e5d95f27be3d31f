"""Time tells nothing: whatever play does, an answer leaves one slot after its offer. The clock here passes only when it is told to."""

import numpy as np
import pytest

from pgc.device import device as module
from pgc.device import slots
from pgc.device.device import Device, Refusal
from pgc.device.slots import DEFAULT_SLOT, PLAY_SHARE, Slot
from pgc.errors import PgcError
from tests.device.test_device import Clock
from tests.device.test_reserve import Plays
from tests.wire.samples import make_offer

SLOT = 10.0


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(slots, "time", clock)
    return clock


def taking(clock, seconds, error=None):
    def work(offer, stop):
        clock.now += seconds
        if error is not None:
            raise error
        return np.ones(6), True

    return work


@pytest.mark.parametrize("seconds", [0.0, 0.1, 7.4, 7.6, 9.9])
@pytest.mark.parametrize("error", [None, OSError("stuck")])
def test_an_answer_takes_one_slot_whatever_play_took(tmp_path, clock, seconds, error):
    """The hole: a play that overran its slot was answered one slot later."""
    player = Plays(taking(clock, seconds, error))
    device = Device.create(tmp_path / "l.db", 10.0, player=player, slot_seconds=SLOT)
    offer, begun = make_offer("duchi"), clock.now
    report = device.answer(offer)
    assert clock.now - begun == pytest.approx(SLOT)
    assert device.answer(offer) == report and clock.now - begun == pytest.approx(2 * SLOT)
    assert isinstance(device.answer(b"nonsense"), Refusal)
    assert clock.now - begun == pytest.approx(3 * SLOT)


def test_play_that_is_late_is_not_what_leaves(tmp_path, clock):
    """The deadline is looked at before the draw: after it nothing decides."""
    drawn = []

    def spy(offer, vector, success):
        drawn.append(vector.copy())
        return draw(offer, vector, success)

    draw, module.draw_report = module.draw_report, spy
    try:
        for seconds in (PLAY_SHARE * SLOT - 0.1, PLAY_SHARE * SLOT + 0.1):
            player = Plays(taking(clock, seconds))
            path = tmp_path / f"{seconds}.db"
            Device.create(path, 10.0, player=player, slot_seconds=SLOT).answer(make_offer("duchi"))
    finally:
        module.draw_report = draw
    assert [bool(vector.any()) for vector in drawn] == [False, True, False]  # blank, trained; blank


@pytest.mark.parametrize("played", [1.0, 4.0, 7.0, 7.4])
@pytest.mark.parametrize("drawing", [0.01, 0.3, 1.0, 3.0])
def test_a_draw_that_takes_long_does_not_show_how_long_play_took(
    tmp_path, clock, monkeypatch, played, drawing
):
    """The hole: by a large offer of laplace an aggregator chose the time of play from which two slots passed."""

    def slow(offer, vector, success):
        clock.now += drawing
        return draw(offer, vector, success)

    draw = module.draw_report
    monkeypatch.setattr(module, "draw_report", slow)
    player = Plays(taking(clock, played))
    device = Device.create(tmp_path / "l.db", 10.0, player=player, slot_seconds=SLOT)
    begun = clock.now
    assert isinstance(device.answer(make_offer("duchi")), bytes)
    assert clock.now - begun == pytest.approx(SLOT)


def test_an_offer_whose_draw_would_not_fit_is_refused(tmp_path, clock):
    player = Plays(taking(clock, 1.0))
    device = Device.create(tmp_path / "l.db", 10.0, player=player, slot_seconds=0.02)
    answer = device.answer(make_offer("laplace"))
    assert isinstance(answer, Refusal) and "drawing the report could take" in answer.reason
    assert device.balance.spent == 0


def test_a_draw_is_padded_only_where_no_slot_hides_it(tmp_path, clock):
    """Padding is a multiple of a fixed time, which would move the end of a slot."""
    for slot_seconds, took in (
        (SLOT, SLOT),
        (0, make_offer("laplace").query.mechanism.release_seconds),
    ):
        player = Plays(taking(clock, 0.0))
        path = tmp_path / f"{slot_seconds}.db"
        device = Device.create(path, 10.0, player=player, slot_seconds=slot_seconds)
        begun = clock.now
        device.answer(make_offer("laplace"))
        assert clock.now - begun == pytest.approx(took)


def test_a_reserved_offer_leaves_one_slot_after_it_was_reserved(tmp_path, clock):
    device = Device.create(tmp_path / "l.db", 10.0, slot_seconds=SLOT)
    begun = clock.now
    assert device.reserve(make_offer("duchi")) is None and clock.now == begun
    clock.now += 3.0  # training
    assert isinstance(device.release(make_offer("duchi"), np.ones(6)), bytes)
    assert clock.now - begun == pytest.approx(SLOT)


def test_slots_are_the_default_where_a_device_plays(tmp_path, clock):
    device = Device.create(tmp_path / "l.db", 10.0, player=Plays(taking(clock, 1.0)))
    begun = clock.now
    device.answer(make_offer("duchi"))
    assert clock.now - begun == pytest.approx(DEFAULT_SLOT)
    assert device.balance.untimed == 0


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), 1e6])
def test_lengths_that_are_none(wrong):
    with pytest.raises(PgcError, match="from 0 to a day"):
        Slot(wrong)
