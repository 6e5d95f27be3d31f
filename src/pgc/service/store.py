"""What is read from and written to a store: models, versions, offers and reports.

Each function is one or a few statements; transactions are the caller's. Tokens are in
`token_store.py`, and what is kept for people in `history.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sql

from pgc.errors import PgcError
from pgc.service.admission import Admission, Issued, OfferRequest, ReportRequest, Verdict
from pgc.service.schema import batches, models, offers, processes, reports, tokens, versions

HOUR, DAY = 3600, 86_400
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


class NotKept(Exception):
    """A version that an offer was made from is no longer in the store."""


class Kept(NamedTuple):
    """A version of a model as it is kept."""

    version: int
    applied: int
    state: bytes
    restored: int | None = None
    offer: bytes | None = None
    """What all offers of this version share, as bytes."""
    policy: bytes | None = None
    """θ and the averaged policy, as safetensors."""


class Accepted(NamedTuple):
    """A report as it is kept."""

    seq: int
    offer_id: int
    version: int
    payload: bytes


class Overtaken(Exception):
    """A version was made in the meantime, by another process or by rolling back."""


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
        sql.select(tokens.c.hash, tokens.c.left, tokens.c.revoked, tokens.c.batch)
        .where(tokens.c.hash.in_(asking))
        .order_by(tokens.c.hash)
        .with_for_update()
    ).all()
    left = {row.hash: row.left for row in known if not row.revoked}
    revoked = {row.hash for row in known if row.revoked}
    theirs = batches.c.name.in_({row.batch for row in known})
    over = sql.select(batches.c.name).where(theirs, batches.c.expires_at <= now)
    gone_batches = set(db.execute(over).scalars())
    expired = {row.hash for row in known if row.batch in gone_batches}
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
        revoked=revoked,
        expired=expired,
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
            versions.c.model == model,
            versions.c.version == version,
            versions.c.offer.is_not(None),
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


def count_offers(db: sql.Connection) -> int:
    """Returns how many offers are open, or expired less than a day ago."""
    return int(db.execute(sql.select(sql.func.count()).select_from(offers)).scalar_one())


# Models and versions


def create_model(db: sql.Connection, name: str, config: str, card: str, first: Kept) -> None:
    """Adds a model, at version 0."""
    db.execute(models.insert().values(name=name, config=config, card=card, accepted=0))
    _insert_versions(db, name, [first])


def list_models(db: sql.Connection) -> dict[str, str]:
    """Returns the names of the models and their configs."""
    query = sql.select(models.c.name, models.c.config).order_by(models.c.name)
    return {row.name: row.config for row in db.execute(query)}


def set_card(db: sql.Connection, model: str, card: str) -> None:
    """Replaces the card of a model."""
    db.execute(models.update().where(models.c.name == model).values(card=card))


def load_card(db: sql.Connection, model: str) -> str:
    """Returns the card of a model that `overview` lists."""
    query = sql.select(models.c.card).where(models.c.name == model)
    return str(db.execute(query).scalar_one())


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
    """How many of them came before the newest version was made."""
    consumed: int
    """How many of them the process that updates took, as far as it has said."""

    @property
    def unapplied(self) -> int:
        """How many of them are in no version yet: in the buffer, too old, or not taken yet."""
        return self.accepted - self.applied

    @property
    def untaken(self) -> int:
        """How many of them the process that updates did not take yet, as far as it has said."""
        return self.accepted - max(self.applied, self.consumed)


def set_consumed(db: sql.Connection, model: str, seq: int) -> None:
    """Says up to which report the process that updates has come."""
    db.execute(models.update().where(models.c.name == model).values(consumed=seq))


def overview(db: sql.Connection) -> dict[str, tuple[int, Progress]]:
    """Returns the newest version of each model and how far it has come.

    It leaves out models that no process of this pgc has prepared for handing out yet.
    """
    newest = (
        sql.select(sql.func.max(versions.c.version))
        .where(versions.c.model == models.c.name)
        .correlate(models)
        .scalar_subquery()
    )
    query = (
        sql.select(
            models.c.name,
            versions.c.version,
            models.c.accepted,
            versions.c.applied,
            models.c.consumed,
        )
        .join(versions, (versions.c.model == models.c.name) & (versions.c.version == newest))
        .where(models.c.card.is_not(None) & versions.c.offer.is_not(None))
    )
    return {row[0]: (int(row[1]), Progress(*map(int, row[2:]))) for row in db.execute(query)}


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


def set_offer(db: sql.Connection, model: str, kept: Kept) -> None:
    """Adds what front ends hand out to a version that a pgc made which did not store it."""
    which = (versions.c.model == model) & (versions.c.version == kept.version)
    db.execute(versions.update().where(which).values(offer=kept.offer, policy=kept.policy))


def without_offer(db: sql.Connection, model: str) -> list[int]:
    """Returns versions that must be handed out and have no bytes for it: the newest, and those of
    open offers.
    """
    offered = sql.select(offers.c.version).where(offers.c.model == model)
    wanted = versions.c.version.in_(offered) | (versions.c.version == newest_version(db, model))
    query = sql.select(versions.c.version).where(
        versions.c.model == model, versions.c.offer.is_(None), wanted
    )
    return list(db.execute(query).scalars())


def load_offer(db: sql.Connection, model: str, version: int) -> tuple[bytes, bytes | None] | None:
    """Returns what all offers of a version share, and its policy if it is the newest; None if
    nothing of the kind is kept.
    """
    query = sql.select(versions.c.offer, versions.c.policy).where(
        versions.c.model == model, versions.c.version == version, versions.c.offer.is_not(None)
    )
    row = db.execute(query).first()
    return None if row is None else (row[0], row[1])


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


def list_restored(db: sql.Connection, model: str) -> list[Listed]:
    """Returns the versions that restored an earlier one, in their order."""
    columns = (versions.c.version, versions.c.applied, versions.c.made_at, versions.c.restored)
    query = (
        sql.select(*columns)
        .where(versions.c.model == model, versions.c.restored.is_not(None))
        .order_by(versions.c.version)
    )
    return [Listed(*row) for row in db.execute(query)]


# Tidying up


def prune(db: sql.Connection, now: int) -> None:
    """Deletes offers that expired more than a day ago, versions that nobody needs, and processes
    that were not seen for an hour.

    The newest version is needed for recovery. Versions of open offers, and of reports that are not
    applied yet, are needed to hand these offers out again and to decode the reports.
    """
    db.execute(offers.delete().where(offers.c.expires_at <= now - DAY))
    db.execute(processes.delete().where(processes.c.seen_at < now - HOUR))
    for model in sorted(list_models(db)):
        if db.dialect.name == "postgresql":
            db.execute(UNLINK, {"model": model, "most": UNLINKED})
        count_accepted(db, model, lock=True)  # no report comes in between
        newest = load_version(db, model)
        assert newest is not None
        # a front end that looked a while ago may still offer the last few
        older = (
            (versions.c.model == model)
            & (versions.c.version < newest.version - EVERY // 10)
            & versions.c.offer.is_not(None)
        )
        # waits for front ends that offer one of them at the moment: the statements below see that
        db.execute(sql.select(versions.c.version).where(older).with_for_update()).all()
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
        old = (versions.c.model == model) & (versions.c.version < newest.version)
        db.execute(versions.update().where(old, versions.c.policy.is_not(None)).values(policy=None))
        unused = older & versions.c.version.not_in(offered)
        db.execute(versions.update().where(unused).values(offer=None))


def _key(offer_id: int) -> bytes:
    return offer_id.to_bytes(8, "big")


def _number(key: bytes) -> int:
    return int.from_bytes(key, "big")
