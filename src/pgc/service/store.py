"""What a service keeps on disk: models and their versions, tokens, offers, accepted reports. SQLAlchemy Core: SQLite, PostgreSQL.

Who sent a report is known only as long as counting needs it: an offer points to its token until it is answered, and then no
more. A report is the payload that a device sent, the number of its offer, and its place in the order of acceptance; θ is a
function of the reports in that order.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sql

from pgc.errors import PgcError

SCHEMA_VERSION = 1
metadata = sql.MetaData()
schema = sql.Table("schema_version", metadata, sql.Column("version", sql.Integer, nullable=False))
models = sql.Table(
    "models",
    metadata,
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("config", sql.Text, nullable=False),
    sql.Column("accepted", sql.BigInteger, nullable=False),  # how many reports; its lock makes their order that of the commits
)
versions = sql.Table(
    "versions",
    metadata,
    sql.Column("model", sql.String(64), primary_key=True),
    sql.Column("version", sql.BigInteger, primary_key=True),
    sql.Column("applied", sql.BigInteger, nullable=False),  # the last report that went into it
    sql.Column("state", sql.LargeBinary, nullable=False),
)
tokens = sql.Table(
    "tokens",
    metadata,
    sql.Column("hash", sql.LargeBinary(32), primary_key=True),
    sql.Column("left", sql.Integer, nullable=False),
    sql.Column("revoked", sql.Boolean, nullable=False, default=False),
)
offers = sql.Table(
    "offers",
    metadata,
    sql.Column("offer_id", sql.LargeBinary(8), primary_key=True),
    sql.Column("model", sql.String(64), nullable=False),
    sql.Column("version", sql.BigInteger, nullable=False),
    sql.Column("expires_at", sql.BigInteger, nullable=False),
    sql.Column("token", sql.LargeBinary(32), index=True),  # null once it is answered
    sql.Column("answer", sql.LargeBinary(32)),  # the digest of what was accepted
)
reports = sql.Table(
    "reports",
    metadata,
    sql.Column("model", sql.String(64), primary_key=True),
    sql.Column("seq", sql.BigInteger, primary_key=True),
    sql.Column("offer_id", sql.LargeBinary(8), nullable=False, unique=True),
    sql.Column("version", sql.BigInteger, nullable=False),
    sql.Column("payload", sql.LargeBinary, nullable=False),
)


class Verdict(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The same bytes again: acknowledged again, counted once."""
    UNKNOWN_TOKEN = "unknown token"
    UNKNOWN_OFFER = "unknown offer"
    CONFLICT = "another report answered this offer"
    LATE = "the offer has expired"


class Issued(NamedTuple):
    """An offer that a token holds."""

    offer_id: int
    version: int
    expires_at: int


def connect(url: str) -> sql.Engine:
    """Open a store; make its tables if there are none; refuse one of another version."""
    engine = sql.create_engine(url)
    if engine.dialect.name == "sqlite":
        sql.event.listen(engine, "connect", _durable_sqlite)
    with engine.begin() as db:
        metadata.create_all(db)
        found = db.execute(sql.select(schema.c.version)).scalar()
        if found is None:
            db.execute(schema.insert().values(version=SCHEMA_VERSION))
        elif found != SCHEMA_VERSION:
            raise PgcError(f"the store is of version {found}; this is pgc for version {SCHEMA_VERSION}")
    return engine


def sqlite_url(path: Path) -> str:
    """Of a file."""
    return f"sqlite:///{path}"


def _durable_sqlite(connection: Any, _: Any) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON", "busy_timeout = 30000"):
        connection.execute(f"PRAGMA {pragma}")


def hash_token(token: str) -> bytes:
    """All that is stored of a token. Tokens are random (256 bits), so a plain hash is enough."""
    return hashlib.sha256(b"pgc token 1" + token.encode()).digest()


def issue_tokens(db: sql.Connection, hashes: list[bytes], submissions: int) -> None:
    """New tokens, each good for so many reports."""
    db.execute(tokens.insert(), [{"hash": h, "left": submissions, "revoked": False} for h in hashes])


def revoke_token(db: sql.Connection, hashed: bytes) -> bool:
    """No offer and no report for it from now on. Whether there was one."""
    return bool(db.execute(tokens.update().where(tokens.c.hash == hashed).values(revoked=True)).rowcount)


class Kept(NamedTuple):
    """A version of a model as it is kept."""

    version: int
    applied: int
    state: bytes


class Accepted(NamedTuple):
    """A report as it is kept."""

    seq: int
    offer_id: int
    version: int
    payload: bytes


def create_model(db: sql.Connection, name: str, config: str, state: bytes) -> None:
    """A new model, at version 0."""
    db.execute(models.insert().values(name=name, config=config, accepted=0))
    keep_version(db, name, Kept(0, 0, state))


def list_models(db: sql.Connection) -> dict[str, str]:
    """Names and configs."""
    return {row.name: row.config for row in db.execute(sql.select(models).order_by(models.c.name))}


def keep_version(db: sql.Connection, model: str, kept: Kept) -> None:
    """A new version."""
    db.execute(versions.insert().values(model=model, version=kept.version, applied=kept.applied, state=kept.state))


def load_version(db: sql.Connection, model: str, version: int | None = None) -> Kept | None:
    """A version, or the newest."""
    query = sql.select(versions.c.version, versions.c.applied, versions.c.state).where(versions.c.model == model)
    query = (
        query.where(versions.c.version == version) if version is not None else query.order_by(versions.c.version.desc()).limit(1)
    )
    row = db.execute(query).first()
    return None if row is None else Kept(*row)


def newest_version(db: sql.Connection, model: str) -> int:
    """Its number."""
    return int(db.execute(sql.select(sql.func.max(versions.c.version)).where(versions.c.model == model)).scalar_one())


def list_versions(db: sql.Connection, model: str, most: int) -> list[tuple[int, int]]:
    """The newest versions, and the place of the last report in each."""
    query = sql.select(versions.c.version, versions.c.applied).where(versions.c.model == model)
    return [(row.version, row.applied) for row in db.execute(query.order_by(versions.c.version.desc()).limit(most))]


def reports_after(db: sql.Connection, model: str, seq: int) -> list[Accepted]:
    """What was accepted since, in order."""
    columns = (reports.c.seq, reports.c.offer_id, reports.c.version, reports.c.payload)
    rows = db.execute(sql.select(*columns).where(reports.c.model == model, reports.c.seq > seq).order_by(reports.c.seq))
    return [Accepted(row.seq, int.from_bytes(row.offer_id, "big"), row.version, row.payload) for row in rows]


def take_offer(db: sql.Connection, hashed: bytes, model: str, fresh: Issued, now: int) -> Issued | Verdict | None:
    """The offer that this token holds; or `fresh` becomes it, if reports are left. None: they are used up."""
    token = db.execute(sql.select(tokens).where(tokens.c.hash == hashed).with_for_update()).first()
    if token is None or token.revoked:
        return Verdict.UNKNOWN_TOKEN
    held = db.execute(
        sql.select(offers.c.offer_id, offers.c.version, offers.c.expires_at)
        .where(offers.c.token == hashed, offers.c.model == model, offers.c.expires_at > now)
        .limit(1)
    ).first()
    if held is not None:  # a device that asks again, for instance because it was killed, gets the same
        return Issued(int.from_bytes(held.offer_id, "big"), held.version, held.expires_at)
    if token.left < 1:
        return None
    db.execute(
        offers.insert().values(
            offer_id=_key(fresh.offer_id), model=model, version=fresh.version, expires_at=fresh.expires_at, token=hashed
        )
    )
    return fresh


def take_report(db: sql.Connection, hashed: bytes, model: str, offer_id: int, version: int, payload: bytes, now: int) -> Verdict:
    """Count and keep a report that was decoded, once."""
    token = db.execute(sql.select(tokens).where(tokens.c.hash == hashed).with_for_update()).first()
    if token is None or token.revoked:
        return Verdict.UNKNOWN_TOKEN
    offer = db.execute(sql.select(offers).where(offers.c.offer_id == _key(offer_id), offers.c.model == model)).first()
    if offer is None or offer.version != version:
        return Verdict.UNKNOWN_OFFER
    digest = hashlib.sha256(payload).digest()
    if offer.answer is not None:
        return Verdict.DUPLICATE if offer.answer == digest else Verdict.CONFLICT
    if offer.token != hashed:
        return Verdict.UNKNOWN_OFFER
    if offer.expires_at <= now:
        return Verdict.LATE
    if token.left < 1:
        return Verdict.UNKNOWN_TOKEN
    db.execute(offers.update().where(offers.c.offer_id == _key(offer_id)).values(answer=digest, token=None))
    db.execute(tokens.update().where(tokens.c.hash == hashed).values(left=tokens.c.left - 1))
    counted = models.update().where(models.c.name == model).values(accepted=models.c.accepted + 1).returning(models.c.accepted)
    seq = db.execute(counted).scalar_one()
    db.execute(reports.insert().values(model=model, seq=seq, offer_id=_key(offer_id), version=version, payload=payload))
    return Verdict.ACCEPTED


def _key(offer_id: int) -> bytes:
    return offer_id.to_bytes(8, "big")
