"""The tables of a store, and their migrations: in SQLite, or in PostgreSQL for several front ends.

| table | holds |
|---|---|
| models | a name, a config, and how many reports were accepted |
| versions | states of the aggregator, each with the place of the last report that went into it |
| tokens | SHA-256 of each token, how many reports it is still good for, whether it was revoked |
| offers | those that are open: number, token, model, version, time. **Deleted when answered** |
| reports | what was accepted, in order: its offer's number, its version, the payload |

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
)
tokens = sql.Table(
    "tokens",
    metadata,
    sql.Column("hash", sql.LargeBinary(32), primary_key=True),
    sql.Column("left", sql.Integer, nullable=False),
    sql.Column("revoked", sql.Boolean, nullable=False),
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
}
"""The statements that make a store of each version from one of the version before. They are plain
SQL, because they must not change when the tables above do."""
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
    for version in range(found + 1, SCHEMA_VERSION + 1):
        for statement in MIGRATIONS[version]:
            db.execute(sql.text(statement))
        db.execute(schema.update().values(version=version))
