"""Stores of older versions become stores of today; newer ones are refused; each kind of database alike."""

import threading

import pytest
import sqlalchemy as sql

from pgc.errors import PgcError
from pgc.service import history, schema, store, token_store
from pgc.service.database import Database
from tests.waiting import wait_for

VERSION_1 = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    "INSERT INTO schema_version VALUES (1)",
    "CREATE TABLE models (name VARCHAR(64) NOT NULL PRIMARY KEY, config TEXT NOT NULL, accepted BIGINT NOT NULL)",
    "CREATE TABLE versions (model VARCHAR(64) NOT NULL, version BIGINT NOT NULL, applied BIGINT NOT NULL, state {blob} NOT NULL,"
    " PRIMARY KEY (model, version))",
    'CREATE TABLE tokens (hash {blob} NOT NULL PRIMARY KEY, "left" INTEGER NOT NULL, revoked BOOLEAN NOT NULL)',
    "CREATE TABLE offers (offer_id {blob} NOT NULL PRIMARY KEY, model VARCHAR(64) NOT NULL, version BIGINT NOT NULL,"
    " expires_at BIGINT NOT NULL, token {blob}, answer {blob})",
    "CREATE INDEX ix_offers_token ON offers (token)",
    "CREATE TABLE reports (model VARCHAR(64) NOT NULL, seq BIGINT NOT NULL, offer_id {blob} NOT NULL UNIQUE,"
    " version BIGINT NOT NULL, payload {blob} NOT NULL, PRIMARY KEY (model, seq))",
    "INSERT INTO models VALUES ('home', 'x: 1', 1)",
    "INSERT INTO versions VALUES ('home', 0, 0, {some})",
    "INSERT INTO offers VALUES ({some}, 'home', 0, 99, {some}, NULL)",
    "INSERT INTO offers VALUES ({other}, 'home', 0, 99, NULL, {some})",
    "INSERT INTO reports VALUES ('home', 1, {other}, 0, {some})",
)
"""As the first version made it, with an open offer and an answered one."""


def old_store(address):
    url = address.replace("postgresql://", "postgresql+psycopg://")
    postgresql = url != address
    words = {"blob": "BYTEA" if postgresql else "BLOB"}
    words |= (
        {"some": r"'\x01'", "other": r"'\x02'"}
        if postgresql
        else {"some": "X'01'", "other": "X'02'"}
    )
    engine = sql.create_engine(url)
    with engine.begin() as db:
        for statement in VERSION_1:
            db.exec_driver_sql(statement.format(**words))
    engine.dispose()


def described(database):
    """Tables, columns with types and whether they may be null, and indices."""
    found = sql.inspect(database.engine)
    return {
        table: (
            sorted(
                (c["name"], str(c["type"]).split("(")[0], c["nullable"])
                for c in found.get_columns(table)
            ),
            sorted(tuple(i["column_names"]) for i in found.get_indexes(table)),
            found.get_pk_constraint(table)["constrained_columns"],
        )
        for table in sorted(found.get_table_names())
    }


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_old_store_is_migrated(kind, request, tmp_path):
    make = (lambda name: f"sqlite:///{tmp_path}/{name}.db") if kind == "sqlite" else None
    addresses = [
        make(n) if make else request.getfixturevalue("new_database")() for n in ("old", "new")
    ]
    old_store(addresses[0])
    migrated, fresh = Database(addresses[0]), Database(addresses[1])
    assert described(migrated) == described(fresh)
    with migrated.reading() as db:
        assert db.execute(sql.select(schema.schema.c.version)).scalar_one() == schema.SCHEMA_VERSION
        assert [row.offer_id for row in db.execute(store.offers.select())] == [
            b"\x01"
        ]  # the answered one is gone
        assert [r.payload for r in store.reports_after(db, "home", 0)] == [b"\x01"]
        assert store.load_version(db, "home").restored is None
    migrated.close()
    again = Database(addresses[0])  # and is left alone from then on
    with again.writing() as db:
        db.execute(schema.schema.update().values(version=schema.SCHEMA_VERSION + 1))
    again.close()
    with pytest.raises(PgcError, match="made by a newer pgc"):
        Database(addresses[0])
    fresh.close()


def test_a_migration_is_all_or_nothing(tmp_path, monkeypatch):
    address = f"sqlite:///{tmp_path}/s.db"
    old_store(address)
    broken = {2: (*schema.MIGRATIONS[2], "ALTER TABLE nowhere ADD COLUMN x INTEGER")}
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(PgcError, match="cannot be opened"):
            Database(address)
    database = Database(address)
    with database.reading() as db:
        assert db.execute(sql.select(schema.schema.c.version)).scalar_one() == schema.SCHEMA_VERSION
    database.close()


def test_what_is_no_store(tmp_path):
    for address, reason in (
        (f"sqlite:///{tmp_path}/no/such/folder/s.db", "cannot be opened"),
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be opened"),
        ("nonsense", "a store is sqlite"),
    ):
        with pytest.raises(PgcError, match=reason):
            Database(address)


def test_sweeping_keeps_what_is_needed(tmp_path):
    """The newest thousand, one in a thousand before, those of open offers and of reports that wait."""
    database = Database(f"sqlite:///{tmp_path}/s.db")
    with database.writing() as db:
        store.create_model(db, "m", "", "{}", store.Kept(0, 0, b"", None, b"o", b"p"))
        made = [store.Kept(v, 0, b"", 5 if v == 77 else None, b"o", b"p") for v in range(1, 3001)]
        store.keep_versions(db, "m", 0, made)
        token_store.issue_tokens(db, [b"t", b"u"], 5, "b", 0, None)
        fresh = [store.Issued(9, 123, 500, "m", b"t"), store.Issued(10, 124, 500, "m", b"u")]
        store.admit(db, [store.OfferRequest(offer) for offer in fresh], 100)
        assert store.admit(db, [store.ReportRequest(b"u", "m", 10, 124, b"x")], 100) == [
            store.Verdict.ACCEPTED
        ]
        store.prune(db, 200)
        listed = {row.version for row in store.list_versions(db, "m", None)}
        assert listed == {0, 77, 123, 124, 1000, 2000, *range(2001, 3001)}
        handed = sql.select(store.versions.c.version).where(store.versions.c.offer.is_not(None))
        assert set(db.execute(handed).scalars()) == {123, *range(2900, 3001)}  # what offers need
        policies = sql.select(store.versions.c.version).where(store.versions.c.policy.is_not(None))
        assert db.execute(policies).scalars().all() == [3000]
        store.prune(db, 500 + 86_400)  # the open offer is forgotten a day after it expired
        assert db.execute(store.offers.select()).first() is None
        assert {row.version for row in store.list_versions(db, "m", None)} == listed - {123}
    database.close()


def test_sweeping_waits_for_an_offer_that_is_being_made(new_database):
    """An old version that a transaction offers at that moment stays, with what is handed out of it."""
    database = Database(new_database())
    with database.writing() as db:
        store.create_model(db, "m", "", "{}", store.Kept(0, 0, b"", None, b"o", b"p"))
        made = [store.Kept(v, 0, b"", None, b"o", b"p") for v in range(1, 1500)]
        store.keep_versions(db, "m", 0, made)
        token_store.issue_tokens(db, [b"t"], 5, "b", 0, None)

    def sweep():
        with database.writing() as db:
            store.prune(db, 200)

    sweeping = threading.Thread(target=sweep)
    with database.writing() as db:
        store.admit(db, [store.OfferRequest(store.Issued(9, 7, 500, "m", b"t"))], 100)
        sweeping.start()
        waits = sql.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

        def waiting():
            with database.reading() as other:
                return other.execute(waits).scalar_one()

        wait_for(waiting, "the sweep, at the version that is being offered")
    sweeping.join()
    with database.reading() as db:
        assert store.load_offer(db, "m", 7) is not None
        assert store.load_offer(db, "m", 8) is None
    database.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_process_says_that_it_lives(kind, tmp_path, request):
    """For the first time from several at once, and under a name that is too long."""
    url = (
        f"sqlite:///{tmp_path}/s.db"
        if kind == "sqlite"
        else request.getfixturevalue("new_database")()
    )
    database, failed = Database(url), []

    def beat(n):
        try:
            with database.writing() as db:
                history.beat(db, history.Process("x" * 200, n, {"n": n}))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=beat, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as db:
        [one] = history.list_processes(db)
    assert not failed and len(one.name) == history.NAME and one.facts == {"n": one.seen_at}
    with database.writing() as db:
        history.end_beat(db, "x" * 200)
        assert history.list_processes(db) == []
        token_store.issue_tokens(db, [b"t", b"u"], 2, "north", 10, 100)
        token_store.issue_tokens(db, [b"v"], 1, "south", 20, None)
        assert token_store.revoke_batch(db, "south") == 1
        north = next(b for b in token_store.list_batches(db, 50) if b.name == "north")
        assert north.tokens == token_store.Tally(2, 4, 0, 0, 0)
        assert token_store.count_tokens(db, 100) == token_store.Tally(0, 0, 0, 1, 2)
    database.close()


def test_postgresql_does_not_remember_which_token_sent_which_report(new_database):
    """Rows that one transaction wrote carry its number; the sweep gives tokens another."""
    database = Database(new_database())
    linked = sql.text("SELECT t.hash, r.offer_id FROM tokens t JOIN reports r ON t.xmin = r.xmin")
    with database.writing() as db:
        store.create_model(db, "m", "", "{}", store.Kept(0, 0, b"", None, b"o", b"p"))
        token_store.issue_tokens(db, [b"t", b"u"], 5, "b", 0, None)
    for n, token in enumerate((b"t", b"u")):
        with database.writing() as db:
            store.admit(db, [store.OfferRequest(store.Issued(n, 0, 500, "m", token))], 100)
        with database.writing() as db:
            assert store.admit(db, [store.ReportRequest(token, "m", n, 0, b"x")], 100) == [
                store.Verdict.ACCEPTED
            ]
    with database.writing() as db:
        assert len(db.execute(linked).all()) == 2
        store.prune(db, 200)
    with database.reading() as db:
        assert (
            db.execute(linked).all() == [] and token_store.count_tokens(db, 200).reports_left == 8
        )
    database.close()


def test_an_offer_of_a_version_that_is_not_kept_is_not_made(address):
    database = Database(address)
    with database.writing() as db:
        store.create_model(db, "m", "", "{}", store.Kept(0, 0, b"", None, b"o", b"p"))
        token_store.issue_tokens(db, [b"t"], 5, "b", 0, None)
    with pytest.raises(store.Overtaken), database.writing() as db:
        store.admit(db, [store.OfferRequest(store.Issued(1, 7, 500, "m", b"t"))], 100)
    database.close()
