"""What `pgc inspect` says of a store: all that an aggregator keeps. It only reads, and may do so
beside a running service.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sql

from pgc.errors import PgcError, first_line
from pgc.service import history, store, token_store
from pgc.service.database import driver_url
from pgc.service.schema import SCHEMA_VERSION, models, reports, schema

Facts = dict[str, Any]


def inspect_store(where: Path | str) -> Facts:
    """Returns what a store holds: a service's file, or the address of a PostgreSQL database."""
    if isinstance(where, Path):
        engine = sql.create_engine(f"sqlite:///{_read_only(where)}&uri=true")
    else:
        engine = sql.create_engine(driver_url(where), connect_args={"connect_timeout": 10})
    try:
        with engine.connect() as db:
            return _facts(db)
    except sql.exc.DBAPIError as error:
        raise PgcError(f"the store cannot be read ({first_line(error.orig)})") from None
    finally:
        engine.dispose()


def _facts(db: sql.Connection) -> Facts:
    if not sql.inspect(db).has_table(schema.name):
        raise PgcError("there is no store of pgc in this database")
    version = db.execute(sql.select(schema.c.version)).scalar_one()
    if version != SCHEMA_VERSION:
        older = version < SCHEMA_VERSION
        raise PgcError(
            f"the store is of version {version}, and this pgc reads version {SCHEMA_VERSION}: "
            + ("pgc serve brings it there" if older else "a newer pgc made it")
        )
    now = int(time.time())
    opened = store.count_offers(db)
    facts: Facts = {
        "this is": "the store of an aggregator: all that it keeps",
        "models": [_of_model(db, name) for name in store.list_models(db)] or "none yet",
        "tokens": token_store.in_words(token_store.count_tokens(db, now)),
        "batches": len(token_store.list_batches(db, now)),
        "open offers": f"{opened}: the only rows that name a token together with an offer; each is "
        "deleted with the commit of its report",
        "reports": _of_reports(db),
        "processes": [f"{p.name}, seen {_minute(p.seen_at)}" for p in history.list_processes(db)]
        or "none lately",
    }
    back = [wish for name in store.list_models(db) for wish in history.list_rollbacks(db, name)]
    facts["went back"] = [
        f"{w.model} to version {w.version}, by {w.who}: {w.reason}" for w in back if w.made
    ] or "never"
    return facts


def _of_model(db: sql.Connection, name: str) -> str:
    accepted, newest = store.count_accepted(db, name), store.load_version(db, name)
    assert newest is not None
    text = db.execute(sql.select(models.c.card).where(models.c.name == name)).scalar_one()
    card = {} if text is None else json.loads(text)
    promise = (
        "" if not card else f"; {card['mechanism']}, ε = {card['epsilon_per_report']:g} a report"
    )
    points = [p for p in history.list_points(db, name) if p.score is not None]
    score = f"; score {points[-1].score:.4g} at version {points[-1].version}" if points else ""
    return (
        f"{name}: version {newest.version}, {accepted} reports, {accepted - newest.applied} of "
        f"them in no version yet{promise}{score}"
    )


def _of_reports(db: sql.Connection) -> str:
    sizes = db.execute(
        sql.select(
            sql.func.count(),
            sql.func.min(sql.func.length(reports.c.payload)),
            sql.func.max(sql.func.length(reports.c.payload)),
        )
    ).one()
    if not sizes[0]:
        return "none yet"
    span = f"{sizes[1]}" if sizes[1] == sizes[2] else f"{sizes[1]} to {sizes[2]}"
    return (
        f"{sizes[0]}, with {span} randomised byte(s) each, in the order of their commits; no time, "
        "no address, and no token"
    )


def _read_only(path: Path) -> str:
    return f"{path.resolve().as_uri()}?mode=ro"


def _minute(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
