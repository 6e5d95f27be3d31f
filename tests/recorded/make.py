"""Records what this version makes, for later ones to read: `python -m tests.recorded.make`. Only before a change of a format.

`bits.json` has the hashes of all runs in `configs.py`, and the machine that made them. `files/` has a finished run, one that was
stopped, a ledger, and a service's store with an offer that is open.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

import pgc
from pgc import __version__
from pgc.config import configure
from pgc.device.device import Device
from pgc.errors import Interrupted
from pgc.runs import train as training
from pgc.runs.machine import DECIDE_BITS, machine
from pgc.service.alone import Alone
from pgc.service.database import sqlite_url
from pgc.wire import Offer
from tests.recorded.configs import COMMON, RUNS, bits, train
from tests.wire.samples import KINDS, make_offer

HERE = Path(__file__).parent
FILES, BITS = HERE / "files", HERE / "bits.json"
STOPPED = {**COMMON, "preset": "paper", "submissions": 60}
SERVED = configure(epsilon=1.0, submissions=1000, buffer_size=3, local_episodes=2)


def record_bits() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(RUNS):
            found[name] = bits(train(name, Path(place) / str(number)))
            print(name, found[name])
    made = {
        "version": __version__,
        "machine": {key: machine()[key] for key in DECIDE_BITS},
        "runs": found,
    }
    BITS.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def record_runs() -> None:
    run = pgc.train(out=FILES / "run", **{**COMMON, "submissions": 20, "trials": 1})
    (run.path / "curve.png").unlink()
    training.stop_signals = _at_once  # type: ignore[assignment]
    training.simulation_of = _that_looks_often(training.simulation_of)  # type: ignore[assignment]
    try:
        pgc.train(out=FILES / "stopped", **STOPPED)
    except Interrupted:
        return
    raise AssertionError("the run was over before it could be stopped")


def record_ledger() -> None:
    device = Device.create(FILES / "ledger.db", 10.0)
    answered = {}
    for number, kind in enumerate(KINDS):
        offer = make_offer(kind, offer_id=number + 1, epsilon=0.5)
        report = device.release(offer, np.arange(6.0))
        assert isinstance(report, bytes)
        answered[kind] = {"offer": offer.encode().hex(), "report": report.hex()}
    device._ledger.close()
    (FILES / "answered.json").write_text(
        json.dumps(answered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def record_store() -> None:
    keeper = Alone(sqlite_url(FILES / "store.db"))
    try:
        keeper.create("home", SERVED)
        *tokens, last = keeper.issue_tokens(9, submissions=1)
        with tempfile.TemporaryDirectory() as place:
            device = Device.create(Path(place) / "l.db", 100.0)
            for token in tokens:
                offer = Offer.decode(keeper.encoded(keeper.offer(token, "home").result()))
                keeper.report(
                    token, "home", device.release(offer, np.ones(len(offer.theta)))
                ).result()
            keeper.offer(last, "home").result()
        keeper.wait_until_applied()
        np.save(FILES / "theta.npy", np.asarray(keeper.model("home").state.theta))
    finally:
        keeper.close()
        (FILES / "store.db.updater").unlink(missing_ok=True)


class _at_once:
    """Stands for `stop_signals`: a stop is asked for at the first look."""

    def __enter__(self):
        return lambda: True

    def __exit__(self, *_):
        pass


def _that_looks_often(make):
    from pgc.engines import compiled_simulation

    compiled_simulation.MOST_TURNS = 16
    return make


if __name__ == "__main__":
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    record_ledger()
    record_store()
    record_bits()
    record_runs()
