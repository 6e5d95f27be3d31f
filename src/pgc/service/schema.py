"""The tables of a store, and their migrations: in SQLite, or in PostgreSQL for several front ends.

| table | holds |
|---|---|
| models | a name, a config, the card that is published, and how many reports were accepted |
| versions | states of the aggregator, each with the place of the last report that went into it, \
and what front ends hand out of it |
| points | how learning went: what each version scored in public |
| rollbacks | what operators asked for: which version, why, who, and what became of it |
| tokens | SHA-256 of each token, how many reports it is still good for, whether it was revoked, \
the batch that it was issued in |
| batches | when each batch of tokens was issued, and until when its tokens get offers |
| offers | those that are open: number, token, model, version, time. **Deleted when answered** |
| reports | what was accepted, in order: its offer's number, its version, the payload |
| processes | who serves and who updates at the moment, and what each of them counted |

So nothing links a report to the token that sent it, because the row that did is deleted. Addresses
of devices and times of their requests are not stored.
"""

from __future__ import annotations

import sqlalchemy as sql

from pgc.errors import PgcError

metadata = sql.MetaData()
schema = sql.Table("schema_version", metadata, sql.Column("version", sql.Integer, nullable=False))
models = sql.Table(
    "models",
    metadata,
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("config", sql.Text, nullable=False),
    # a lock on this row makes the order of reports that of the commits
    sql.Column("accepted", sql.BigInteger, nullable=False),
    # how many of them the process that updates took: into a version, its buffer, or not at all
    sql.Column("consumed", sql.BigInteger, nullable=False, server_default="0"),
    # as JSON; none until a process that updates has seen a model of an older pgc
    sql.Column("card", sql.Text),
)
versions = sql.Table(
    "versions",
    metadata,
    sql.Column("model", sql.String(64), primary_key=True),
    sql.Column("version", sql.BigInteger, primary_key=True),
    sql.Column("applied", sql.BigInteger, nullable=False),  # the last report that went into it
    sql.Column("state", sql.LargeBinary, nullable=False),
    # the hour, in seconds since 1970
    sql.Column("made_at", sql.BigInteger, nullable=False, server_default="0"),
    sql.Column("restored", sql.BigInteger),  # the earlier version that it restores, if any
    # what all offers of this version share, as bytes; none when no offer can need it any more
    sql.Column("offer", sql.LargeBinary),
    # θ and the averaged policy as safetensors; of the newest version only
    sql.Column("policy", sql.LargeBinary),
)
points = sql.Table(
    "points",
    metadata,
    sql.Column("model", sql.String(64), primary_key=True),
    sql.Column("version", sql.BigInteger, primary_key=True),
    sql.Column("reports", sql.BigInteger, nullable=False),
    sql.Column("score", sql.Float(53)),
    sql.Column("success", sql.Float(53)),
    sql.Column("margin", sql.Float(53)),
)
rollbacks = sql.Table(
    "rollbacks",
    metadata,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("model", sql.String(64), nullable=False),
    sql.Column("version", sql.BigInteger, nullable=False),  # the one to restore
    sql.Column("who", sql.Text, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("asked_at", sql.BigInteger, nullable=False),
    sql.Column("made", sql.BigInteger),  # the version that was made of it
    sql.Column("refused", sql.Text),  # why none was
)
tokens = sql.Table(
    "tokens",
    metadata,
    sql.Column("hash", sql.LargeBinary(32), primary_key=True),
    sql.Column("left", sql.Integer, nullable=False),
    sql.Column("revoked", sql.Boolean, nullable=False),
    sql.Column("batch", sql.String(64), nullable=False, server_default="", index=True),
)
batches = sql.Table(
    "batches",
    metadata,
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("issued_at", sql.BigInteger, nullable=False),
    sql.Column("expires_at", sql.BigInteger),
)
processes = sql.Table(
    "processes",
    metadata,
    sql.Column("name", sql.String(128), primary_key=True),
    sql.Column("seen_at", sql.BigInteger, nullable=False),
    sql.Column("facts", sql.Text, nullable=False),  # as JSON
)
offers = sql.Table(
    "offers",
    metadata,
    sql.Column("offer_id", sql.LargeBinary(8), primary_key=True),
    sql.Column("model", sql.String(64), nullable=False),
    sql.Column("version", sql.BigInteger, nullable=False),
    sql.Column("expires_at", sql.BigInteger, nullable=False),
    sql.Column("token", sql.LargeBinary(32), index=True),
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
MIGRATIONS: dict[int, tuple[str, ...]] = {
    2: (  # answered offers are deleted; versions know when they were made, and what they restored
        "DELETE FROM offers WHERE answer IS NOT NULL",
        "ALTER TABLE offers DROP COLUMN answer",
        "ALTER TABLE versions ADD COLUMN made_at BIGINT DEFAULT '0' NOT NULL",
        "ALTER TABLE versions ADD COLUMN restored BIGINT",
    ),
    3: (  # front ends hand out bytes that are stored; tokens have batches; operators are remembered
        "ALTER TABLE models ADD COLUMN consumed BIGINT DEFAULT '0' NOT NULL",
        "ALTER TABLE models ADD COLUMN card TEXT",
        "ALTER TABLE versions ADD COLUMN offer {bytes}",
        "ALTER TABLE versions ADD COLUMN policy {bytes}",
        "ALTER TABLE tokens ADD COLUMN batch VARCHAR(64) DEFAULT '' NOT NULL",
        "CREATE INDEX ix_tokens_batch ON tokens (batch)",
        "CREATE TABLE points (model VARCHAR(64) NOT NULL, version BIGINT NOT NULL, "
        "reports BIGINT NOT NULL, score FLOAT(53), success FLOAT(53), margin FLOAT(53), "
        "PRIMARY KEY (model, version))",
        "CREATE TABLE rollbacks (id VARCHAR(32) NOT NULL PRIMARY KEY, model VARCHAR(64) NOT NULL, "
        "version BIGINT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL, "
        "asked_at BIGINT NOT NULL, made BIGINT, refused TEXT)",
        "CREATE TABLE batches (name VARCHAR(64) NOT NULL PRIMARY KEY, issued_at BIGINT NOT NULL, "
        "expires_at BIGINT)",
        "CREATE TABLE processes (name VARCHAR(128) NOT NULL PRIMARY KEY, seen_at BIGINT NOT NULL, "
        "facts TEXT NOT NULL)",
    ),
}
"""The statements that make a store of each version from one of the version before. They are plain
SQL, because they must not change when the tables above do. {bytes} is each database's own word."""
SCHEMA_VERSION = max(MIGRATIONS)
LOCK = 0x706763
"""The first key of pgc's advisory locks in PostgreSQL: (LOCK, 0) is held while tables are made, and
(LOCK, 1) by the process that updates θ."""


def migrate(db: sql.Connection) -> None:
    """Makes the tables if there are none, and brings older ones to today's version."""
    if db.dialect.name == "postgresql":  # two front ends may start at once
        db.execute(sql.text("SELECT pg_advisory_xact_lock(:a, 0)"), {"a": LOCK})
    if not sql.inspect(db).has_table(schema.name):
        metadata.create_all(db)
        db.execute(schema.insert().values(version=SCHEMA_VERSION))
        return
    found = db.execute(sql.select(schema.c.version)).scalar_one()
    if found > SCHEMA_VERSION:
        raise PgcError(
            f"the store is of version {found}, made by a newer pgc; this one knows versions up to "
            f"{SCHEMA_VERSION}"
        )
    own_word = "BYTEA" if db.dialect.name == "postgresql" else "BLOB"
    for version in range(found + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[version]:
            db.execute(sql.text(statement.replace("{bytes}", own_word)))
        db.execute(schema.update().values(version=version))
