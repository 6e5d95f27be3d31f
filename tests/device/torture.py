"""Kill devices at bad moments, and look at what is left. A process of its own: it forks, and must have no other threads.

    python -m tests.device.torture lines FOLDER        SIGKILL after every line of Python from charge to send
    python -m tests.device.torture random FOLDER N     SIGKILL at N random moments, two devices on one ledger
    python -m tests.device.torture full FOLDER         a file that cannot grow, at every size
    python -m tests.device.torture readonly FOLDER     a ledger that may only be read

Each prints a line of JSON with what happened, or fails.
"""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pgc
from pgc.device.device import Device, Refusal
from pgc.wire import Offer, Query, Report

DIM, COST = 6, 100_000_000
UNIT = 0.003
"""About the seconds that a report takes."""
HERE = Path(pgc.__file__).parent


def make_offer(number: int, kind: int = 4) -> Offer:
    query = Query(kind=kind, nano_epsilon=COST, dim=DIM)
    return Offer(offer_id=number, policy_version=1, query=query, theta=np.zeros(DIM, np.float32))


def check(path: Path, limit: int, sent: list[tuple[int, bytes]]) -> int:
    """The promises. Returns how many reports were charged."""
    Device.open(path)  # whole, and its sum is right
    db = sqlite3.connect(path)
    (most, spent), rows = (
        db.execute("SELECT most, spent FROM budget").fetchone(),
        db.execute("SELECT offer_id, cost, report, sealed FROM reports").fetchall(),
    )
    db.close()
    assert most == limit and spent == sum(cost for _, cost, _, _ in rows) <= limit, (
        most,
        spent,
        limit,
    )
    stored = {
        int.from_bytes(offer_id, "big"): report for offer_id, _, report, sealed in rows if sealed
    }
    for number, report in sent:
        assert stored.get(number) == report, (
            f"offer {number} was answered with what was not charged"
        )
        Report.decode(report, make_offer(number, kind=1 if len(report) > 16 else 4))
    return len(rows)


def forked(work, *, kill_after: tuple[int, float] | None = None) -> list[tuple[int, bytes]]:
    """What a child sent before it ended, or was killed: after so many reports, and some more work of random length."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work(
                lambda number, report: os.write(
                    writer, number.to_bytes(8, "big") + len(report).to_bytes(4, "big") + report
                )
            )
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(3)
        os._exit(0)
    os.close(writer)
    data = b""
    while piece := os.read(reader, 65536):
        data += piece
        if kill_after is not None and len(parsed(data)) >= kill_after[0]:
            time.sleep(kill_after[1])  # chooses a moment; what must hold, holds at any
            os.kill(child, signal.SIGKILL)
            kill_after = None
    os.close(reader)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return parsed(data)


def parsed(data: bytes) -> list[tuple[int, bytes]]:
    """The reports that were written whole."""
    sent = []
    while len(data) >= 12:
        number, size = int.from_bytes(data[:8], "big"), int.from_bytes(data[8:12], "big")
        if len(data) < 12 + size:
            break  # killed while it wrote
        sent.append((number, data[12 : 12 + size]))
        data = data[12 + size :]
    return sent


def lines(folder: Path) -> dict:
    """After each line that is executed between the charge and the send."""
    path, limit, everything = folder / "lines.db", 10**12, []
    Device.create(path, limit / 10**9)
    number = killed = 0
    for reached in range(1, 10_000):
        number += 1

        def work(send, number=number, reached=reached):
            device, count = Device.open(path), 0

            def trace(frame, event, _):
                nonlocal count
                if not frame.f_code.co_filename.startswith(str(HERE)):
                    return None
                if event == "line":
                    count += 1
                    if count == reached:
                        os.kill(os.getpid(), signal.SIGKILL)
                return trace

            offer = make_offer(number)
            sys.settrace(trace)
            report = device.release(offer, np.ones(DIM))
            sys.settrace(None)
            assert isinstance(report, bytes)
            send(number, report)

        sent = forked(work)
        everything += sent
        again = forked(
            lambda send, number=number: send(
                number, Device.open(path).release(make_offer(number), -np.ones(DIM))
            )
        )
        assert not sent or again == sent, "a retry was answered differently"
        everything += again
        if sent:
            break
        killed += 1
    charged = check(path, limit, everything)
    assert charged == number and killed > 50
    return {"killed": killed, "charged": charged, "sent": len(everything)}


def randomly(folder: Path, kills: int) -> dict:
    """At random moments, while two devices with one ledger answer the same offers.

    Each is killed after it sent one to four reports and worked on for up to the time that two of them take: within a charge, a
    commit, a send, or between them.
    """
    rng, total = random.Random(), {"killed": 0, "charged": 0, "sent": 0, "ledgers": 0}

    def moment() -> tuple[int, float]:
        return rng.randint(1, 4), rng.uniform(0, 2 * UNIT)

    while total["killed"] < kills:
        total["ledgers"] += 1
        path = folder / f"{total['ledgers']}.db"
        limit = COST * rng.randint(5, 60)
        Device.create(path, limit / 10**9)
        offers, everything = [make_offer(n, kind=rng.choice((1, 4))) for n in range(1, 81)], []
        for _ in range(min(25, -(-kills // 2))):

            def work(send, path=path, offers=offers):
                device = Device.open(path)
                for offer in random.Random().sample(offers, len(offers)):
                    report = device.release(offer, np.ones(DIM))
                    if isinstance(report, bytes):
                        send(offer.offer_id, report)
                    else:
                        assert "is left" in report.reason, report

            other = os.fork()
            if other == 0:
                everything = forked(work, kill_after=moment())
                (folder / "other.json").write_text(
                    json.dumps([(n, r.hex()) for n, r in everything])
                )
                os._exit(0)
            everything += forked(work, kill_after=moment())
            assert os.waitpid(other, 0)[1] == 0
            everything += [
                (n, bytes.fromhex(r)) for n, r in json.loads((folder / "other.json").read_text())
            ]
            total["killed"] += 2
            check(path, limit, everything)
        answers: dict[int, set[bytes]] = {}
        for number, report in everything:
            answers.setdefault(number, set()).add(report)
        assert all(len(reports) == 1 for reports in answers.values())
        total["charged"] += check(path, limit, everything)
        total["sent"] += len(everything)
        path.unlink()
    return total


def full(folder: Path) -> dict:
    """No file may grow beyond a size: every write that SQLite makes fails once."""
    path, limit = folder / "full.db", 10**12
    device = Device.create(path, limit / 10**9)
    for number in range(1, 40):
        assert isinstance(device.release(make_offer(number, kind=1), np.ones(DIM)), bytes)
    device._ledger.close()
    refused, everything, number = 0, [], 1000
    for size in range(0, path.stat().st_size + 3 * 4096, 512):
        number += 1

        def work(send, number=number, size=size):
            device = Device.open(path)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            report = device.release(make_offer(number, kind=1), np.ones(DIM))
            if isinstance(report, Refusal):
                assert "nothing was released" in report.reason, report
                report = b""
            send(number, report)

        [(_, report)] = forked(work)
        refused += report == b""
        everything += [(number, report)] if report else []
        check(path, limit, everything)
    assert refused >= 3 and everything
    return {"refused": refused, "sent": len(everything)}


def readonly(_: Path) -> dict:
    """The file, and then its folder, may only be read, and then not even that."""
    folder = Path(tempfile.mkdtemp())  # where another user can come
    path = folder / "readonly.db"
    Device.create(path, 1.0)
    for target, mode in ((path, 0o444), (folder, 0o555), (path, 0o000), (folder, 0o000)):
        before = target.stat().st_mode
        os.chmod(path, 0o666)
        os.chmod(folder, 0o777)
        os.chmod(target, mode)

        def work(send):
            if os.getuid() == 0:
                os.setuid(65534)
            for number in (1, 2):
                try:
                    report = Device.open(path).release(make_offer(number), np.ones(DIM))
                except pgc.PgcError as error:
                    report = Refusal(str(error))
                assert isinstance(report, Refusal) and "nothing was released" in report.reason, (
                    report
                )
            send(0, b"refused")

        assert forked(work) == [(0, b"refused")]
        os.chmod(target, before)
        assert check(path, 10**9, []) == 0
    shutil.rmtree(folder)
    return {"refused": 8}


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    done = {
        "lines": lines,
        "random": lambda f: randomly(f, int(rest[0])),
        "full": full,
        "readonly": readonly,
    }[what](Path(where))
    print(json.dumps(done))
