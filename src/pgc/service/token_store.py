"""Tokens in a store: hashes of them, in batches.

Each function is one or a few statements; transactions are the caller's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sql

from pgc.service.schema import batches, tokens


def hash_token(token: str) -> bytes:
    """Returns the hash of a token, which is all that is stored of it and all that is compared.

    Tokens are 256 random bits: a plain hash is enough, and how long a look-up takes says nothing
    about the token, since nobody can choose the hash of what they guess.
    """
    return hashlib.sha256(b"pgc token 1" + token.encode("utf-8", "surrogateescape")).digest()


def issue_tokens(
    db: sql.Connection,
    hashes: Sequence[bytes],
    submissions: int,
    batch: str,
    now: int,
    expires_at: int | None,
) -> None:
    """Adds tokens by their hashes, each good for `submissions` reports, as a batch of this name."""
    db.execute(batches.insert().values(name=batch, issued_at=now, expires_at=expires_at))
    rows = [{"hash": h, "left": submissions, "revoked": False, "batch": batch} for h in hashes]
    db.execute(tokens.insert(), rows)


def revoke_token(db: sql.Connection, hashed: bytes) -> bool:
    """Revokes a token, so that it gets no offers and its reports are refused.

    Returns whether there was such a token.
    """
    return bool(
        db.execute(tokens.update().where(tokens.c.hash == hashed).values(revoked=True)).rowcount
    )


def revoke_batch(db: sql.Connection, batch: str) -> int:
    """Revokes the tokens of a batch that have reports left. Returns how many there were."""
    which = (tokens.c.batch == batch) & ~tokens.c.revoked & (tokens.c.left > 0)
    return int(db.execute(tokens.update().where(which).values(revoked=True)).rowcount)


class Tally(NamedTuple):
    """How many tokens there are of each kind."""

    usable: int
    reports_left: int
    used_up: int
    revoked: int
    expired: int


class Batch(NamedTuple):
    """Tokens that were issued together."""

    name: str
    """Its label. Tokens of a pgc that knew no batches are in one without a name."""
    issued_at: int | None
    expires_at: int | None
    """From when on its tokens get no offers; None for never."""
    tokens: Tally

    @property
    def card(self) -> dict[str, Any]:
        """The batch as plain data, for programs."""
        times = {"issued_at": self.issued_at, "expires_at": self.expires_at}
        return {"label": self.name, **times, **self.tokens._asdict()}


def list_batches(db: sql.Connection, now: int) -> list[Batch]:
    """Returns every batch of tokens with its counts, the one that was issued last first."""

    def count(which: sql.ColumnElement[bool]) -> sql.ColumnElement[int]:
        return sql.func.coalesce(sql.func.sum(sql.case((which, 1), else_=0)), 0)

    fresh, gone = ~tokens.c.revoked & (tokens.c.left > 0), batches.c.expires_at <= now
    usable = fresh & sql.func.coalesce(~gone, sql.true())
    query = (
        sql.select(
            tokens.c.batch,
            batches.c.issued_at,
            batches.c.expires_at,
            count(usable),
            sql.func.coalesce(sql.func.sum(sql.case((usable, tokens.c.left), else_=0)), 0),
            count(~tokens.c.revoked & (tokens.c.left == 0)),
            count(tokens.c.revoked),
            count(fresh & gone),
        )
        .select_from(tokens.outerjoin(batches, tokens.c.batch == batches.c.name))
        .group_by(tokens.c.batch, batches.c.issued_at, batches.c.expires_at)
        .order_by(sql.func.coalesce(batches.c.issued_at, 0).desc(), tokens.c.batch)
    )
    return [Batch(row[0], row[1], row[2], Tally(*map(int, row[3:]))) for row in db.execute(query)]


def count_tokens(db: sql.Connection, now: int) -> Tally:
    """Counts the tokens of all batches: usable, used up, revoked, expired."""
    each = [batch.tokens for batch in list_batches(db, now)]
    return Tally(*(sum(column) for column in zip(*each, strict=True))) if each else Tally(*[0] * 5)


def in_words(tally: Tally) -> str:
    """Returns the counts as a line for people."""
    return (
        f"{tally.usable} usable, for {tally.reports_left} reports; {tally.used_up} used up; "
        f"{tally.revoked} revoked; {tally.expired} expired"
    )
