"""What a store keeps for people: how learning went, who went back to which version and why, and
which processes are at work.

Each function is one or a few statements; transactions are the caller's.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from pgc.service.schema import points, processes, rollbacks

MOST_POINTS = 400
"""Points of a model's curve that are kept. When there are more, the one goes that the curve misses
least: whose neighbours are nearest to each other, in reports."""
NAME = 128
"""Characters of a process's name."""


class Point(NamedTuple):
    """Where a model stood when one of its versions was looked at."""

    version: int
    reports: int
    score: float | None
    """Greedy score of the averaged policy in the world with its usual ψ; None if nobody but the
    devices can play it."""
    success: float | None
    """The share of successes among the last devices, estimated from noisy booleans; None if reports
    carry none."""
    margin: float | None
    """Two standard deviations of `success`."""


def add_point(db: sql.Connection, model: str, point: Point) -> None:
    """Adds a point to a model's curve, and thins the curve if it has become long."""
    known = [(p.version, p.reports) for p in list_points(db, model)]
    if point.version in (version for version, _ in known):
        return
    db.execute(points.insert().values(model=model, **point._asdict()))
    if len(known) >= MOST_POINTS:
        gaps = [
            (after[1] - before[1], here[0])
            for before, here, after in zip(known, known[1:], known[2:], strict=False)
        ]
        least = points.c.version == min(gaps)[1]
        db.execute(points.delete().where(points.c.model == model, least))


def list_points(db: sql.Connection, model: str) -> list[Point]:
    """Returns a model's curve, in the order of versions."""
    columns = (points.c[name] for name in Point._fields)
    query = sql.select(*columns).where(points.c.model == model).order_by(points.c.version)
    return [Point(*row) for row in db.execute(query)]


UPDATER = "updater"
"""The name under which the process that updates says that it lives; others have an address in
theirs."""


class Process(NamedTuple):
    """A process that serves or updates."""

    name: str
    seen_at: int
    facts: dict[str, Any]


def beat(db: sql.Connection, process: Process) -> None:
    """Writes when a process was last alive, and its counters, so that every front end can show
    them.
    """
    row = {"seen_at": process.seen_at, "facts": json.dumps(process.facts)}
    insert = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    db.execute(
        insert(processes)
        .values(name=process.name[:NAME], **row)
        .on_conflict_do_update(index_elements=["name"], set_=row)
    )


def end_beat(db: sql.Connection, name: str) -> None:
    """Says that a process has ended."""
    db.execute(processes.delete().where(processes.c.name == name[:NAME]))


def list_processes(db: sql.Connection) -> list[Process]:
    """Returns the processes that were seen lately, by their names."""
    query = sql.select(processes).order_by(processes.c.name)
    return [Process(row.name, row.seen_at, json.loads(row.facts)) for row in db.execute(query)]


class Rollback(NamedTuple):
    """An operator's wish to go back, and what became of it."""

    id: str
    model: str
    version: int
    who: str
    reason: str
    asked_at: int
    made: int | None = None
    refused: str | None = None


def ask_rollback(db: sql.Connection, wish: Rollback) -> None:
    """Writes down a wish; the process that updates fulfils it."""
    db.execute(rollbacks.insert().values(wish._asdict()))


def withdraw_rollback(db: sql.Connection, wish: str) -> bool:
    """Takes back a wish that nobody has answered. Returns whether it was still open."""
    return bool(db.execute(rollbacks.delete().where(_open(), rollbacks.c.id == wish)).rowcount)


def open_rollbacks(db: sql.Connection) -> list[Rollback]:
    """Returns the wishes that are not answered yet, in their order."""
    query = sql.select(rollbacks).where(_open()).order_by(rollbacks.c.asked_at, rollbacks.c.id)
    return [Rollback(**row._mapping) for row in db.execute(query)]


def answer_rollback(
    db: sql.Connection, wish: str, *, made: int | None = None, refused: str | None = None
) -> bool:
    """Says what became of a wish. Returns whether it was still open."""
    query = rollbacks.update().where(_open(), rollbacks.c.id == wish)
    return bool(db.execute(query.values(made=made, refused=refused)).rowcount)


def list_rollbacks(db: sql.Connection, model: str, most: int = 100) -> list[Rollback]:
    """Returns the newest wishes of a model, the newest first."""
    query = (
        sql.select(rollbacks)
        .where(rollbacks.c.model == model)
        .order_by(rollbacks.c.asked_at.desc(), rollbacks.c.id)
        .limit(most)
    )
    return [Rollback(**row._mapping) for row in db.execute(query)]


def find_rollback(db: sql.Connection, wish: str) -> Rollback | None:
    """Returns a wish by its number."""
    row = db.execute(sql.select(rollbacks).where(rollbacks.c.id == wish)).first()
    return None if row is None else Rollback(**row._mapping)


def _open() -> sql.ColumnElement[bool]:
    return rollbacks.c.made.is_(None) & rollbacks.c.refused.is_(None)
