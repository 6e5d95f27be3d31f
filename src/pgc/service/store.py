"""What is read from and written to a store.

Each function is one or a few statements; transactions are the caller's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sql

from pgc.errors import PgcError
from pgc.service.admission import Admission, Issued, OfferRequest, ReportRequest, Verdict
from pgc.service.schema import models, offers, reports, tokens, versions

HOUR = 3600
EVERY = 1000
"""The newest EVERY versions are kept, and of older ones every EVERY-th."""


UNLINKED = 100_000
UNLINK = sql.text(
    'UPDATE tokens SET "left" = "left" WHERE hash IN '
    "(SELECT t.hash FROM tokens t JOIN reports r ON t.xmin = r.xmin"
    " WHERE r.model = :model AND r.seq > (SELECT accepted FROM models WHERE name = :model) - :most)"
)
"""Rewrites the token rows, so that PostgreSQL's transaction id no longer links a token to its
report."""


class Kept(NamedTuple):
    """A version of a model as it is kept."""

    version: int
    applied: int
    state: bytes
    restored: int | None = None


class Accepted(NamedTuple):
    """A report as it is kept."""

    seq: int
    offer_id: int
    version: int
    payload: bytes


class Overtaken(Exception):
    """A version was made in the meantime, by another process or by rolling back."""


# Tokens


def hash_token(token: str) -> bytes:
    """Returns the hash of a token, which is all that is stored of it and all that is compared.

    Tokens are 256 random bits: a plain hash is enough, and how long a look-up takes says nothing
    about the token, since nobody can choose the hash of what they guess.
    """
    return hashlib.sha256(b"pgc token 1" + token.encode("utf-8", "surrogateescape")).digest()


def issue_tokens(db: sql.Connection, hashes: Sequence[bytes], submissions: int) -> None:
    """Adds tokens by their hashes, each good for `submissions` reports."""
    db.execute(
        tokens.insert(), [{"hash": h, "left": submissions, "revoked": False} for h in hashes]
    )


def revoke_token(db: sql.Connection, hashed: bytes) -> bool:
    """Revokes a token, so that it gets no offers and its reports are refused.

    Returns whether there was such a token.
    """
    return bool(
        db.execute(tokens.update().where(tokens.c.hash == hashed).values(revoked=True)).rowcount
    )


class Tally(NamedTuple):
    """How many tokens there are of each kind."""

    usable: int
    reports_left: int
    used_up: int
    revoked: int


def count_tokens(db: sql.Connection) -> Tally:
    """Counts the tokens: usable, used up, revoked."""

    def count(which: sql.ColumnElement[bool]) -> int:
        return int(
            db.execute(sql.select(sql.func.count()).select_from(tokens).where(which)).scalar_one()
        )

    usable = ~tokens.c.revoked & (tokens.c.left > 0)
    left = db.execute(
        sql.select(sql.func.coalesce(sql.func.sum(tokens.c.left), 0)).where(usable)
    ).scalar_one()
    return Tally(
        count(usable),
        int(left),
        count(~tokens.c.revoked & (tokens.c.left == 0)),
        count(tokens.c.revoked),
    )


# Offers and reports


def admit(
    db: sql.Connection, requests: Sequence[OfferRequest | ReportRequest], now: int
) -> list[Issued | Verdict]:
    """Decides a group of requests and writes the results; returns the decision on each request.

    It takes a few statements, however many requests there are.
    """
    # in one order everywhere, so that no two groups wait for each other
    asking = sorted({request.token for request in requests})
    known = db.execute(
        sql.select(tokens.c.hash, tokens.c.left, tokens.c.revoked)
        .where(tokens.c.hash.in_(asking))
        .order_by(tokens.c.hash)
        .with_for_update()
    )
    left = {row.hash: row.left for row in known if not row.revoked}
    opened = db.execute(sql.select(offers).where(offers.c.token.in_(list(left))))
    answering = [
        _key(request.offer_id) for request in requests if isinstance(request, ReportRequest)
    ]
    admission = Admission(
        now,
        left,
        [
            Issued(_number(row.offer_id), row.version, row.expires_at, row.model, row.token)
            for row in opened
        ],
        _answered(db, answering) if answering else (),
    )
    verdicts = [admission.decide(request) for request in requests]
    gone = []
    still_open = {offer.offer_id: offer for offer in admission.issued}
    for answer in admission.accepted:
        if still_open.pop(answer.offer_id, None) is None:
            gone.append(_key(answer.offer_id))
    if gone:
        db.execute(offers.delete().where(offers.c.offer_id.in_(gone)))
    for model, version in {(offer.model, offer.version) for offer in still_open.values()}:
        kept = sql.select(versions.c.version).where(
            versions.c.model == model, versions.c.version == version
        )
        # this process slept for so long that nobody could decode a report from its version
        if db.execute(kept.with_for_update(read=True)).first() is None:
            raise Overtaken("this process offers a version that is not kept any more")
    if still_open:
        db.execute(
            offers.insert(),
            [offer._asdict() | {"offer_id": _key(offer.offer_id)} for offer in still_open.values()],
        )
    if admission.spent:
        spent: sql.BindParameter[int] = sql.bindparam("b_spent")
        counted = (
            tokens.update()
            .where(tokens.c.hash == sql.bindparam("b_hash"))
            .values(left=tokens.c.left - spent)
        )
        db.execute(
            counted,
            [{"b_hash": token, "b_spent": n} for token, n in sorted(admission.spent.items())],
        )
    for model in sorted({answer.model for answer in admission.accepted}):
        _append(db, model, [answer for answer in admission.accepted if answer.model == model])
    return verdicts


def _answered(db: sql.Connection, keys: list[bytes]) -> Iterable[ReportRequest]:
    rows = db.execute(sql.select(reports).where(reports.c.offer_id.in_(keys)))
    return [
        ReportRequest(b"", row.model, _number(row.offer_id), row.version, row.payload)
        for row in rows
    ]


def _append(db: sql.Connection, model: str, answers: list[ReportRequest]) -> None:
    """Appends reports to those of a model.

    The model's row is locked until the commit, so reports are in the order of the commits.
    """
    counted = (
        models.update()
        .where(models.c.name == model)
        .values(accepted=models.c.accepted + len(answers))
    )
    last = db.execute(counted.returning(models.c.accepted)).scalar_one()
    rows = [
        {
            "model": model,
            "seq": seq,
            "offer_id": _key(a.offer_id),
            "version": a.version,
            "payload": a.payload,
        }
        for seq, a in enumerate(answers, last - len(answers) + 1)
    ]
    db.execute(reports.insert(), rows)


def reports_after(
    db: sql.Connection, model: str, seq: int, most: int | None = None
) -> list[Accepted]:
    """Returns the reports that were accepted after number `seq`, in order; at most `most`."""
    columns = (reports.c.seq, reports.c.offer_id, reports.c.version, reports.c.payload)
    query = (
        sql.select(*columns)
        .where(reports.c.model == model, reports.c.seq > seq)
        .order_by(reports.c.seq)
        .limit(most)
    )
    return [
        Accepted(row.seq, _number(row.offer_id), row.version, row.payload)
        for row in db.execute(query)
    ]


def last_payloads(db: sql.Connection, model: str, most: int) -> list[bytes]:
    """Returns the payloads of the reports that were accepted last."""
    query = (
        sql.select(reports.c.payload)
        .where(reports.c.model == model)
        .order_by(reports.c.seq.desc())
        .limit(most)
    )
    return list(db.execute(query).scalars())


# Models and versions


def create_model(db: sql.Connection, name: str, config: str, state: bytes) -> None:
    """Adds a model, at version 0."""
    db.execute(models.insert().values(name=name, config=config, accepted=0))
    _insert_versions(db, name, [Kept(0, 0, state)])


def list_models(db: sql.Connection) -> dict[str, str]:
    """Returns the names of the models and their configs."""
    return {row.name: row.config for row in db.execute(sql.select(models).order_by(models.c.name))}


def count_accepted(db: sql.Connection, model: str, *, lock: bool = False) -> int:
    """Returns how many reports a model has accepted.

    With `lock`, nobody else can add reports or versions until the commit.
    """
    query = sql.select(models.c.accepted).where(models.c.name == model)
    return int(db.execute(query.with_for_update() if lock else query).scalar_one())


class Progress(NamedTuple):
    """How far a model has come, counted over all front ends."""

    accepted: int
    """Reports that were accepted."""
    applied: int
    """How many of them went into versions."""

    @property
    def unapplied(self) -> int:
        """How many of them are in no version yet: in the buffer, or waiting for the updater."""
        return self.accepted - self.applied


def progress(db: sql.Connection, model: str) -> Progress:
    """Returns how far a model has come."""
    applied = (
        sql.select(sql.func.max(versions.c.applied))
        .where(versions.c.model == model)
        .scalar_subquery()
    )
    row = db.execute(sql.select(models.c.accepted, applied).where(models.c.name == model)).one()
    return Progress(int(row[0]), int(row[1]))


def keep_versions(db: sql.Connection, model: str, after: int, made: Sequence[Kept]) -> None:
    """Adds versions made from version `after`; raises `Overtaken` if that is not the newest."""
    count_accepted(db, model, lock=True)
    if newest_version(db, model) != after:
        raise Overtaken
    _insert_versions(db, model, made)


def _insert_versions(db: sql.Connection, model: str, made: Sequence[Kept]) -> None:
    # to the hour: with a small buffer the second would be that of a device's report
    hour = int(time.time()) // HOUR * HOUR
    db.execute(
        versions.insert(), [kept._asdict() | {"model": model, "made_at": hour} for kept in made]
    )


def load_version(db: sql.Connection, model: str, version: int | None = None) -> Kept | None:
    """Returns a version that is kept, or the newest; None if there is none."""
    columns = (versions.c.version, versions.c.applied, versions.c.state, versions.c.restored)
    query = sql.select(*columns).where(versions.c.model == model)
    query = (
        query.where(versions.c.version == version)
        if version is not None
        else query.order_by(versions.c.version.desc()).limit(1)
    )
    row = db.execute(query).first()
    return None if row is None else Kept(*row)


def lock_for_rollback(db: sql.Connection, model: str, version: int) -> tuple[Kept, Kept, int]:
    """Returns the version to restore, the newest one, and how many reports were accepted.

    The model is locked, so none of these can change until the commit.
    """
    accepted = count_accepted(db, model, lock=True)
    old, newest = load_version(db, model, version), load_version(db, model)
    if old is None or newest is None:
        raise PgcError(
            f"{model} has no version {version}; the newest {EVERY} are kept, and of older ones "
            f"every {EVERY}th"
        )
    return old, newest, accepted


def newest_version(db: sql.Connection, model: str) -> int:
    """Returns the number of a model's newest version."""
    return int(
        db.execute(
            sql.select(sql.func.max(versions.c.version)).where(versions.c.model == model)
        ).scalar_one()
    )


class Listed(NamedTuple):
    """A version in the public history."""

    version: int
    applied: int
    made_at: int
    restored: int | None


def list_versions(db: sql.Connection, model: str, most: int | None) -> list[Listed]:
    """Returns the newest versions, at most `most`, the newest first."""
    columns = (versions.c.version, versions.c.applied, versions.c.made_at, versions.c.restored)
    query = (
        sql.select(*columns)
        .where(versions.c.model == model)
        .order_by(versions.c.version.desc())
        .limit(most)
    )
    return [Listed(*row) for row in db.execute(query)]


def prune(db: sql.Connection, now: int) -> None:
    """Deletes offers that expired more than a day ago, and versions that nobody needs.

    The newest version is needed for recovery. Versions of open offers, and of reports that are not
    applied yet, are needed to hand these offers out again and to decode the reports.
    """
    db.execute(offers.delete().where(offers.c.expires_at <= now - 86_400))
    for model in sorted(list_models(db)):
        if db.dialect.name == "postgresql":
            db.execute(UNLINK, {"model": model, "most": UNLINKED})
        count_accepted(db, model, lock=True)  # no report comes in between
        newest = load_version(db, model)
        assert newest is not None
        # those that have expired as well, because clocks of front ends may differ
        offered = sql.select(offers.c.version).where(offers.c.model == model)
        waiting = sql.select(reports.c.version).where(
            reports.c.model == model, reports.c.seq > newest.applied
        )
        db.execute(
            versions.delete().where(
                versions.c.model == model,
                versions.c.version <= newest.version - EVERY,
                versions.c.version % EVERY != 0,
                versions.c.restored.is_(None),
                versions.c.version.not_in(offered),
                versions.c.version.not_in(waiting),
            )
        )


def _key(offer_id: int) -> bytes:
    return offer_id.to_bytes(8, "big")


def _number(key: bytes) -> int:
    return int.from_bytes(key, "big")
