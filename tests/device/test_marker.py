"""One budget for one device: a ledger that was lost, put back or given to another is not a new one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pgc.device.device import Device
from pgc.device.ledger import Ledger, LedgerError
from pgc.device.marker import STATE, Mark, Marker, device_hash, state_folder
from pgc.errors import PgcError
from tests.waiting import LIMIT

DIGEST = bytes(32)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    return tmp_path / "state"


def spend(ledger, n):
    assert ledger.reserve(n, DIGEST, 500_000_000, b"blank") is None


def test_three_folders_are_one_budget(tmp_path):
    """The hole: ε = 3 of 1, with a new ledger wherever none was found."""
    spend(Ledger.create(tmp_path / "one.db", 1.0, device_id="serial 7"), 1)
    for folder in ("two", "three"):
        (tmp_path / folder).mkdir()
        with pytest.raises(
            LedgerError, match=r"this device has a ledger, which had spent at least ε = 0.5"
        ):
            Device.create(tmp_path / folder / "ledger.db", 1.0, device_id="serial 7")
        assert not list((tmp_path / folder).iterdir())
    Ledger.create(tmp_path / "other.db", 1.0, device_id="serial 8")  # another device


def test_a_lost_ledger_is_not_replaced(tmp_path):
    path = tmp_path / "ledger.db"
    spend(Ledger.create(path, 1.0, device_id="serial 7"), 1)
    path.unlink()
    with pytest.raises(
        LedgerError, match=r"had one that had spent at least ε = 0.5: put that file back"
    ):
        Ledger.open(path, device_id="serial 7")
    with pytest.raises(LedgerError, match="has a ledger"):
        Ledger.create(path, 1.0, device_id="serial 7")
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(path)


def test_a_ledger_that_went_back_in_time_is_refused_while_it_is_open(tmp_path):
    """The hole: 4 × 0.5 of 1, putting the file back between reports."""
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, 1.0)
    shutil.copy(path, tmp_path / "copy.db")
    spend(ledger, 1)
    path.write_bytes((tmp_path / "copy.db").read_bytes())  # the same file, its content put back
    with pytest.raises(
        LedgerError, match=r"went back in time: it says that ε = 0 is spent, and it was ε = 0.5"
    ):
        ledger.reserve(2, DIGEST, 500_000_000, b"blank")


def test_a_file_that_was_exchanged_is_refused_while_it_is_open(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, 1.0)
    shutil.copy(path, tmp_path / "copy.db")
    spend(ledger, 1)
    os.replace(tmp_path / "copy.db", path)
    with pytest.raises(LedgerError, match="was replaced by another file"):
        ledger.reserve(2, DIGEST, 500_000_000, b"blank")
    path.unlink()
    with pytest.raises(LedgerError, match="was replaced by another file"):
        ledger.reserve(2, DIGEST, 500_000_000, b"blank")


def test_and_after_a_restart_by_its_mark(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, 1.0, device_id="serial 7")
    shutil.copy(path, tmp_path / "copy.db")
    spend(ledger, 1)
    ledger.close()
    shutil.copy(tmp_path / "copy.db", path)
    for name in ({}, {"device_id": "serial 7"}):  # the ledger knows that it has a mark
        with pytest.raises(
            LedgerError, match=r"went back in time: .* this device's mark says ε = 0.5"
        ):
            Ledger.open(path, **name)


def test_a_ledger_belongs_to_one_device(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.create(path, 1.0, device_id="serial 7")
    with pytest.raises(LedgerError, match="the ledger of another device"):
        Ledger.open(path, device_id="serial 8")
    Ledger.create(tmp_path / "unnamed.db", 1.0)
    with pytest.raises(LedgerError, match="made without a device_id"):
        Ledger.open(tmp_path / "unnamed.db", device_id="serial 7")
    with pytest.raises(PgcError, match="a name that this device alone has"):
        Ledger.create(tmp_path / "x.db", 1.0, device_id="")


def test_another_ledger_of_the_same_device_is_refused(tmp_path, state):
    """As where somebody removed the mark, made a second one, and now opens the first."""
    first = tmp_path / "first.db"
    Ledger.create(first, 1.0, device_id="serial 7")
    shutil.rmtree(state)
    Ledger.create(tmp_path / "second.db", 1.0, device_id="serial 7")
    with pytest.raises(LedgerError, match="not the ledger that this device was given"):
        Ledger.open(first)


def test_a_ledger_whose_mark_is_gone_is_refused(tmp_path, state, monkeypatch):
    """The hole: with another state folder, a ledger that was put back began anew, and got a new mark."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    ledger = Ledger.create(path, 1.0, device_id="serial 7")
    shutil.copy(path, copy)
    spend(ledger, 1)
    shutil.copy(copy, path)
    monkeypatch.setenv(STATE, str(tmp_path / "elsewhere"))
    for name in ({}, {"device_id": "serial 7"}):
        with pytest.raises(LedgerError, match="is not there: without it nobody can see"):
            Ledger.open(path, **name)
    monkeypatch.setenv(STATE, str(state))
    with pytest.raises(LedgerError, match="went back in time"):
        Ledger.open(path)


def test_a_mark_that_disappears_stops_the_next_charge(tmp_path, state):
    ledger = Ledger.create(tmp_path / "ledger.db", 1.0, device_id="serial 7")
    shutil.rmtree(state)
    with pytest.raises(LedgerError, match="is not there"):
        spend(ledger, 1)


def test_who_is_killed_while_a_ledger_is_made_has_no_budget_to_spend(tmp_path, monkeypatch):
    """The mark comes first: a ledger without one, which could be copied and used twice, is never there."""

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    monkeypatch.setattr(Marker, "make", killed)
    with pytest.raises(Killed):
        Ledger.create(tmp_path / "ledger.db", 1.0, device_id="serial 7")
    with pytest.raises(LedgerError, match="creation was cut short"):
        Ledger.open(tmp_path / "ledger.db")


def test_a_damaged_mark_is_not_passed_over(tmp_path, state):
    path = tmp_path / "ledger.db"
    Ledger.create(path, 1.0, device_id="serial 7")
    next(state.iterdir()).write_bytes(b"nonsense")
    with pytest.raises(LedgerError, match="does not say which ledger"):
        Ledger.open(path)


def test_marks_are_private_and_only_rise(tmp_path, state):
    marker = Marker.of(device_hash("serial 7"))
    assert marker.make(Mark("ab", 5)) and not marker.make(Mark("cd", 0))
    marker.raise_to(Mark("ab", 3))
    assert marker.read() == Mark("ab", 5)
    marker.raise_to(Mark("ab", 7))
    assert marker.read() == Mark("ab", 7)
    assert marker.path.stat().st_mode & 0o777 == 0o600 and "serial" not in marker.path.name


def test_the_state_folder_is_where_the_system_keeps_such_things(monkeypatch, tmp_path):
    monkeypatch.delenv(STATE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = state_folder()
    assert folder in (Path("/var/lib/pgc/devices"), tmp_path / "pgc")


def test_two_processes_cannot_provision_one_device_twice(tmp_path):
    script = (
        "import sys; from pgc.device import Ledger; from pgc.errors import PgcError\n"
        "try: Ledger.create(sys.argv[1], 1.0, device_id='serial 7'); print('made')\n"
        "except PgcError: print('refused')"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, tmp_path / f"{i}.db"], stdout=subprocess.PIPE, text=True
        )
        for i in range(4)
    ]
    said = [racer.communicate(timeout=LIMIT)[0].strip() for racer in racers]
    assert (
        sorted(said) == ["made", "refused", "refused", "refused"]
        and len(list(tmp_path.glob("*.db"))) == 1
    )
