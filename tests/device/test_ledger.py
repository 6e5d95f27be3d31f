"""The ledger: exact sums, refusals, and promises that hold whenever a process is killed."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pgc.device.ledger import APPLICATION, Ledger, LedgerError, OtherOffer
from pgc.errors import BudgetSpent, PgcError
from pgc.randomise.budget import epsilon_of, nano_of
from tests.length import length
from tests.waiting import LIMIT

KILLS = length(500, 2000)
DIGEST = bytes(32)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.db", 1.0)


def pay(ledger, offer_id, digest, cost, report):
    """Charges for an offer and answers it, as a device does."""
    before = ledger.reserve(offer_id, digest, cost, b"blank")
    return ledger.seal(offer_id, digest, report) if before is None else before


def torture(*arguments) -> dict:
    made = subprocess.run(
        [sys.executable, "-m", "tests.device.torture", *map(str, arguments)],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=3 * LIMIT,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-3000:]
    return json.loads(made.stdout)


def test_nine_ninths_are_one(tmp_path):
    ledger = Ledger.create(tmp_path / "a.db", 1.0)
    ninth = nano_of(1.0) // 9
    for n in range(9):
        assert pay(ledger, n, DIGEST, ninth, b"r") == b"r"
    assert ledger.balance.left == 1
    ten = Ledger.create(tmp_path / "b.db", 1.0)
    for n in range(10):
        pay(ten, n, DIGEST, nano_of(0.1), b"r")
    assert ten.balance.left == 0 and ten.balance.reports == 10
    with pytest.raises(BudgetSpent, match=r"costs ε = 1e-09 and ε = 0 of ε = 1 is left"):
        pay(ten, 11, DIGEST, 1, b"r")


@pytest.mark.parametrize("epsilon", [0.1, 1 / 9, 1.0, 2.5, 1e-4, 999.9])
def test_nano_epsilon_never_promises_more_than_is_charged(epsilon):
    from fractions import Fraction

    nano = nano_of(epsilon)
    assert (
        Fraction(epsilon_of(nano)) <= Fraction(nano, 10**9)
        and abs(epsilon_of(nano) - epsilon) < 1e-9
    )
    with pytest.raises(PgcError, match="between 0 and 1000"):
        nano_of(1e6)


def test_a_repeated_offer_gets_the_stored_bytes_and_another_one_is_refused(ledger):
    assert pay(ledger, 5, DIGEST, 10, b"first") == b"first"
    assert pay(ledger, 5, DIGEST, 10, b"second") == b"first" and ledger.balance.spent == 10
    with pytest.raises(OtherOffer, match="one number gets one report"):
        pay(ledger, 5, b"\1" * 32, 10, b"third")
    with pytest.raises(PgcError, match="at least one"):
        pay(ledger, 6, DIGEST, 0, b"free")


INTERRUPTED = """
import random, signal, sqlite3, statistics, sys, time  # the clock only chooses moments: an alarm at any of them must do no harm
from pgc.device import Ledger, LedgerError

def pay(ledger, offer_id, digest, cost, report):
    before = ledger.reserve(offer_id, digest, cost, b"blank")
    return ledger.seal(offer_id, digest, report) if before is None else before

class Alarm(BaseException): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
path, rng, returned, interrupted = sys.argv[1], random.Random(0), {}, 0
ledger, usual = Ledger.create(path, 100.0), []
for n in range(30):
    begun = time.perf_counter()
    pay(ledger, 10**7 + n, bytes(32), 1000, b"r")
    usual.append(time.perf_counter() - begun)
usual, n, other = statistics.median(usual), 0, sqlite3.connect(path)

def on_disk(number, answer):  # as another process sees it, at this moment
    row = other.execute("SELECT report FROM reports WHERE sealed AND offer_id = ?", (number.to_bytes(8, "big"),)).fetchone()
    assert row == (answer,), "returned what was not committed"
    return answer

while interrupted < 500 or len(returned) < 200:
    n += 1
    number, answers = n % 1500, []
    for attempt in range(3):
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1.5 * usual))
            answer = pay(ledger, number, bytes(32), 1000, rng.randbytes(8))
            signal.setitimer(signal.ITIMER_REAL, 0)
            answers.append(on_disk(number, answer))
        except Alarm:
            interrupted += 1
            stored = ledger.answered(number, bytes(32))  # in the handler, with the traceback alive: as a watchdog would
            if stored is not None:
                answers.append(on_disk(number, stored))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    for answer in answers:
        assert returned.setdefault(number, answer) == answer, "two reports for one offer"
assert pay(ledger, 10**6, bytes(32), 1000, b"x") == b"x"  # and it still works
"""


def test_interrupted_from_outside(tmp_path):
    """A watchdog's exception can come between any two instructions. Nothing that is not on the disk is ever returned."""
    made = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "l.db"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert made.returncode == 0, made.stderr[-2000:]


def test_a_call_inside_a_call_is_refused(ledger):
    with pytest.raises(LedgerError, match="in the middle of another call"):
        ledger._alone(lambda _: ledger.answered(1, DIGEST))
    assert ledger.answered(1, DIGEST) is None


def test_a_ledger_is_created_once(ledger, tmp_path):
    with pytest.raises(LedgerError, match="exists; a device has one ledger for life"):
        Ledger.create(tmp_path / "ledger.db", 1.0)
    with pytest.raises(PgcError, match="at least one nano"):
        Ledger.create(tmp_path / "zero.db", 0.0)
    with pytest.raises(LedgerError, match="cannot be created"):
        Ledger.create(tmp_path / "nowhere" / "x.db", 1.0)
    assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600


def test_a_commit_is_on_the_disk(ledger):
    assert ledger._connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    assert ledger._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def spoil(path, how):
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_bytes(b"this is not a database, but it is long enough to be taken for one" * 20)
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:6000])
    elif how == "flipped":
        data = bytearray(path.read_bytes())
        data[4096:4200] = os.urandom(104)
        path.write_bytes(data)
    else:
        db = sqlite3.connect(path)
        for statement in how.split(";"):
            db.execute(statement)
        db.commit()
        db.close()


SPOILED = {
    "missing": "there is no ledger",
    "empty": "is empty: its creation was cut short, or it was damaged",
    "text": "cannot be used",
    "truncated": "cannot be used|damaged",
    "flipped": "cannot be used|damaged",
    "PRAGMA application_id = 7": "not a pgc ledger",
    "PRAGMA user_version = 3": "a ledger of version 3",
    "DROP TABLE reports": "tables were changed",
    "CREATE TRIGGER free AFTER INSERT ON reports BEGIN UPDATE budget SET spent = 0; END": "tables were changed",
    "DELETE FROM budget": "not the sum",
    "UPDATE budget SET spent = 0": "not the sum",
    "DELETE FROM reports": "not the sum",
}


@pytest.mark.parametrize("how", SPOILED)
def test_open_refuses_rather_than_starting_from_zero(ledger, tmp_path, how):
    for n in range(40):
        pay(ledger, n, DIGEST, 10, bytes(200))
    ledger.close()
    path = tmp_path / "ledger.db"
    if "TRIGGER" in how:
        db = sqlite3.connect(path)
        db.execute(how)
        db.close()
    else:
        spoil(path, how)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(LedgerError, match=SPOILED[how]):
        Ledger.open(path)
    assert (path.read_bytes() if path.exists() else None) == before  # and leaves it alone


def test_another_programs_database_is_left_as_it_is(tmp_path):
    path = tmp_path / "theirs.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="not a pgc ledger"):
        Ledger.open(path)
    assert path.read_bytes() == before and APPLICATION.to_bytes(4, "big") == b"PGC1"


def test_a_full_database_refuses(ledger):
    ledger._connection.execute("PRAGMA max_page_count = 5")
    with pytest.raises(LedgerError, match="full"):
        ledger.reserve(1, DIGEST, 10, bytes(50_000))
    assert ledger.balance.spent == 0


def test_a_ledger_that_crossed_a_fork_is_refused(ledger):
    ledger._process = -1  # as it would be in a child; a fork here would lose this process's threads
    with pytest.raises(LedgerError, match="before a fork"):
        pay(ledger, 1, DIGEST, 10, b"x")


def test_two_processes_cannot_overspend(tmp_path):
    """Eight of them race for a budget of fifty reports."""
    path = tmp_path / "shared.db"
    Ledger.create(path, 0.05)
    script = (
        "import sys; from pgc.device import Ledger; from pgc.errors import BudgetSpent\n"
        "ledger, me, paid = Ledger.open(sys.argv[1]), int(sys.argv[2]), 0\n"
        "for n in range(100):\n"
        "    try: paid += ledger.reserve(me * 1000 + n, bytes(32), 10**6, b'r') is None\n"
        "    except BudgetSpent: pass\n"
        "print(paid)"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, path, str(i)], stdout=subprocess.PIPE, text=True
        )
        for i in range(8)
    ]
    paid = [int(r.communicate(timeout=LIMIT)[0]) for r in racers]
    assert sum(paid) == 50 and Ledger.open(path).balance.left == 0


@pytest.mark.soak
def test_killed_after_every_line(tmp_path):
    done = torture("lines", tmp_path)
    assert done["killed"] > 50


@pytest.mark.more
@pytest.mark.soak
def test_killed_at_random_moments(tmp_path):
    done = torture("random", tmp_path, KILLS)
    assert done["killed"] >= KILLS and done["sent"] >= done["killed"] // 2


def test_a_disk_that_is_full(tmp_path):
    assert torture("full", tmp_path)["refused"] >= 3


def test_a_disk_that_is_read_only(tmp_path):
    assert torture("readonly", tmp_path)["refused"] == 8
