"""`pgc inspect`: says what exactly is in an offer, a report, a ledger, a run or a store.

The facts come in order, each with a name and a description.
"""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np

from pgc.device.ledger import APPLICATION, look
from pgc.errors import PgcError, require
from pgc.randomise.budget import NANO, epsilon_text
from pgc.wire import Offer, Report
from pgc.wire.offer import OFFER_V1
from pgc.wire.report import HEAD_SIZE, REPORT_V1, size_of, split

Facts = dict[str, Any]


def inspect(path: Path, offer: Path | None = None) -> Facts:
    """Returns the facts about a file or folder, of whichever kind it is.

    A report is explained fully only with the offer that it answers.
    """
    if (path / "store.db").is_file():
        path /= "store.db"  # a service's folder
    if path.is_dir():
        return inspect_run(path)
    # through SQLite: to open and close the file by other means would drop its locks
    if path.is_file() and is_ledger(path):
        return inspect_ledger(path)
    if path.is_file() and is_sqlite(path):
        return inspect_store(path)
    data = _read(path)
    if data[:1] == bytes([OFFER_V1]):
        return inspect_offer(Offer.decode(data))
    if data[:1] == bytes([REPORT_V1]):
        return inspect_report(data, None if offer is None else Offer.decode(_read(offer)))
    begins = f"begins with {data[:1].hex()}" if data else "is empty"
    raise PgcError(
        f"{path} is no offer, report, ledger, run or store of pgc: it {begins}; an offer "
        "begins with d1, a report with e1"
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise PgcError(
            f"cannot read {path} ({getattr(error, 'strerror', None) or error})"
        ) from None


def inspect_offer(offer: Offer) -> Facts:
    """Returns what a device is asked for, what it costs, and what would leave it."""
    query, mechanism = offer.query, offer.query.mechanism
    symbols = mechanism.parameters
    asked = (
        "the whole gradient"
        if offer.basis is None
        else f"{query.dim} coordinates in a public subspace"
    )
    return {
        "this is": f"an offer of {len(offer.encode())} bytes: "
        "what an aggregator asks of one device, once",
        "offer": f"{offer.offer_id:016x}",
        "policy version": offer.policy_version,
        "policy": f"θ of {len(offer.theta)} numbers, "
        f"root mean square {float(np.sqrt(np.mean(offer.theta**2))):.4g}",
        "local play": f"{offer.episodes} episode(s), "
        f"a random action with probability {offer.alpha:g}",
        "asks for": f"{asked}, randomised by {query.name}"
        + (f" ({', '.join(symbols)})" if symbols else ""),
        "noisy boolean": f"asked for, at {epsilon_text(query.score_nano_epsilon)}"
        if query.score_nano_epsilon
        else "not asked for",
        "costs": f"{epsilon_text(query.cost)} of the device's lifetime budget, "
        "charged before anything is sent",
        "promise": mechanism.guarantee.statement,
        "report": f"{size_of(offer)} bytes, whatever the device's data are",
        "expires": "never"
        if not offer.expires_at
        else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(offer.expires_at)),
    }


def inspect_report(data: bytes, offer: Offer | None) -> Facts:
    """Returns what left a device, and what it means."""
    number, version, payload = split(data)
    facts: Facts = {
        "this is": f"a report of {len(data)} bytes: all that left a device for one offer",
        "answers offer": f"{number:016x}",
        "policy version": version,
        "payload": (
            f"{len(payload)} bytes after a header of {HEAD_SIZE}: "
            f"{payload[:16].hex()}{'…' if len(payload) > 16 else ''}"
        ),
    }
    if offer is None:
        return facts | {"meaning": "give the offer that it answers with --offer FILE"}
    report, query = Report.decode(data, offer), offer.query
    vector = report.vector(offer)
    return facts | {
        "code": query.mechanism.in_words(report.code),
        "noisy boolean": "none"
        if report.score_bit is None
        else f"{report.score_bit} (true or not, by randomised response)",
        "estimate": f"{len(vector)} numbers of norm {float(np.linalg.norm(vector)):.4g}: "
        "mostly noise, useful in a mean of many",
        "promise": query.mechanism.guarantee.statement,
        "cost": epsilon_text(query.cost),
    }


def is_ledger(path: Path) -> bool:
    """Whether this is an SQLite file with the application number of a ledger."""
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            return bool(db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION)
        finally:
            db.close()
    except sqlite3.Error as error:  # busy, or to be recovered first: opening it will say so
        return error.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN)


def is_sqlite(path: Path) -> bool:
    """Whether this is an SQLite file."""
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            return bool(db.execute("PRAGMA schema_version").fetchone()[0])
        finally:
            db.close()
    except sqlite3.Error:
        return False


def inspect_store(where: Path | str) -> Facts:
    """Returns what an aggregator keeps: its file, or the address of its database."""
    require("sqlalchemy", "service")
    from pgc.service.inspecting import inspect_store

    return inspect_store(where)


def inspect_ledger(path: Path) -> Facts:
    """Returns what a device has spent, after checking that its ledger is whole; changes nothing."""
    balance = look(path)
    return {
        "this is": "a device's ledger: undamaged, and its charges add up to what was spent",
        "limit": epsilon_text(balance.most),
        "spent": f"{epsilon_text(balance.spent)} on {balance.reports} report(s)",
        "left": epsilon_text(balance.left),
        "time": (
            "no report was sent yet"
            if not balance.reports
            else "every report waited for the end of a slot: when it came tells nothing, except "
            "that a device had to start again"
            if not balance.untimed
            else f"{balance.untimed} of the {balance.reports} report(s) had no slot to wait for: "
            "how long they took can tell something that no ε counts"
        ),
        "nano_epsilon": {
            "limit": balance.most,
            "spent": balance.spent,
            "left": balance.left,
            "unit": f"1/{NANO:,} ε",
        },
    }


def inspect_run(path: Path) -> Facts:
    """Returns what the agents of a run promised."""
    try:
        statement: Facts = json.loads((path / "privacy.json").read_text())
    except (OSError, ValueError):
        raise PgcError(
            f"{path} has no privacy.json that can be read; is it a folder that pgc made?"
        ) from None
    return {"this is": "a run folder: what left its (simulated) agents", **statement}
