"""The service without its transport: admission, counting once, and a state that is the replay of what was accepted."""

import numpy as np
import pytest

from pgc.config import configure
from pgc.device.device import Device
from pgc.service import store, token_store
from pgc.service.admission import Issued, Verdict
from pgc.service.alone import Alone
from pgc.service.database import sqlite_url
from pgc.service.replay import replay, same
from pgc.wire import Malformed, Offer
from tests.waiting import wait_for

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=3, local_episodes=2)


@pytest.fixture(scope="module")
def made(address):
    """A keeper with one model; its tests use tokens of their own."""
    keeper = Alone(address)
    keeper.create("home", CONFIG)
    yield keeper
    keeper.close()


def fetch(keeper, token):
    issued = keeper.offer(token, "home").result()
    return Offer.decode(b"".join(keeper.encoded(issued))) if isinstance(issued, Issued) else issued


def cycle(keeper, token, device, rng):
    offer = fetch(keeper, token)
    assert isinstance(offer, Offer)
    report = device.release(offer, rng.standard_normal(len(offer.theta)))
    return offer, report, keeper.report(token, "home", report).result()


def test_a_token_is_good_for_exactly_its_reports(made, tmp_path, rng):
    keeper = made
    [token] = keeper.issue_tokens(1, submissions=2)
    device = Device.create(tmp_path / "l.db", 10.0)
    first, report, verdict = cycle(keeper, token, device, rng)
    assert verdict is Verdict.ACCEPTED
    second, _, verdict = cycle(keeper, token, device, rng)
    assert verdict is Verdict.ACCEPTED and second.offer_id != first.offer_id
    assert fetch(keeper, token) is Verdict.USED_UP
    keeper.wait_until_applied()
    before = keeper.model("home").received
    assert (
        keeper.report(token, "home", report).result() is Verdict.DUPLICATE
    )  # acknowledged again, counted once
    keeper.wait_until_applied()
    assert keeper.model("home").received == before


def test_who_asks_again_gets_the_same_offer(made):
    keeper = made
    [token] = keeper.issue_tokens(1, submissions=1)
    first, again = (fetch(keeper, token) for _ in range(2))
    assert first.encode() == again.encode()


def test_refusals(made, tmp_path, rng):
    keeper = made
    [token, other] = keeper.issue_tokens(2, submissions=1)
    device = Device.create(tmp_path / "l.db", 10.0)
    assert fetch(keeper, "nonsense") is Verdict.UNKNOWN_TOKEN
    offer = fetch(keeper, token)
    report = device.release(offer, rng.standard_normal(len(offer.theta)))
    assert keeper.report("nonsense", "home", report).result() is Verdict.UNKNOWN_TOKEN
    assert keeper.report(other, "home", report).result() is Verdict.UNKNOWN_OFFER  # another's offer
    assert (
        keeper.report(token, "home", report[:1] + bytes(8) + report[9:]).result()
        is Verdict.UNKNOWN_OFFER
    )
    with pytest.raises(Malformed, match="report: "):
        keeper.report(token, "home", report + b"\0")
    with pytest.raises(Malformed, match="no model"):
        keeper.offer(token, "elsewhere")
    assert keeper.report(token, "home", report).result() is Verdict.ACCEPTED
    changed = report[:-1] + bytes([report[-1] ^ 1])
    assert keeper.report(token, "home", changed).result() is Verdict.CONFLICT
    assert (
        keeper.revoke_token(token)
        and keeper.report(token, "home", report).result() is Verdict.REVOKED
    )


def test_a_late_report_is_refused(made, tmp_path, rng):
    keeper = made
    [token] = keeper.issue_tokens(1, submissions=1)
    offer = fetch(keeper, token)
    report = Device.create(tmp_path / "l.db", 10.0).release(
        offer, rng.standard_normal(len(offer.theta))
    )
    clock, keeper.clock = keeper.clock, lambda: offer.expires_at + 1
    try:
        assert keeper.report(token, "home", report).result() is Verdict.LATE
        renewed = fetch(keeper, token)
        assert renewed.offer_id != offer.offer_id
    finally:
        keeper.clock = clock


def test_what_is_kept_is_the_replay_of_what_was_accepted(made, tmp_path, rng):
    """Another process that opens the store has the same state, to the bit; and so has a model that takes the reports again."""
    keeper = made
    device = Device.create(tmp_path / "l.db", 100.0)
    tokens = keeper.issue_tokens(40, submissions=1)
    early = fetch(keeper, tokens[-1])  # of a version that will be old when it is answered
    for token in tokens[:-1]:
        assert cycle(keeper, token, device, rng)[2] is Verdict.ACCEPTED
    keeper.wait_until_applied()
    stale = device.release(early, rng.standard_normal(len(early.theta)))
    assert keeper.model("home").version > early.policy_version + 5
    assert fetch(keeper, tokens[-1]).encode() == early.encode()
    assert keeper.report(tokens[-1], "home", stale).result() is Verdict.ACCEPTED
    keeper.wait_until_applied()
    assert keeper.model("home").received >= 40
    made = replay(keeper.database, "home")
    assert (
        made.differs is None
        and made.compared == made.versions > 12
        and made.reports == keeper.progress("home").accepted
    )
    assert same(made.state, keeper.model("home").state)
    again = Alone(keeper.url)
    try:
        assert not again.leads and again.models["home"].version == keeper.model("home").version
    finally:
        again.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_another_process_goes_on_where_this_one_died(kind, request, tmp_path, rng):
    """To the bit, the buffer included; and while the first lives, the second only follows."""
    url = (
        sqlite_url(tmp_path / "store.db")
        if kind == "sqlite"
        else request.getfixturevalue("new_database")()
    )
    first = Alone(url)
    first.create("home", CONFIG)
    second = Alone(url)
    try:
        device = Device.create(tmp_path / "l.db", 100.0)
        for keeper, token in zip(
            (first, second) * 4, first.issue_tokens(8, submissions=1), strict=True
        ):
            assert (
                cycle(keeper, token, device, rng)[2] is Verdict.ACCEPTED
            )  # either takes reports, one makes versions
        first.wait_until_applied()
        second.wait_until_applied()
        assert first.leads and not second.leads
        assert second.models["home"].version == first.models["home"].version == 2
        state = first.model("home").state
        first.close()
        second.wait_until_applied()
        assert second.leads and same(second.model("home").state, state)
        for token in second.issue_tokens(1, submissions=1):
            assert cycle(second, token, device, rng)[2] is Verdict.ACCEPTED
        second.wait_until_applied()
        assert (
            second.models["home"].version == 3 and replay(second.database, "home").differs is None
        )
    finally:
        second.close()


def test_nothing_links_a_report_to_its_token(made, tmp_path, rng):
    """The only row that did is deleted with the same commit, and overwritten on the disk."""
    keeper = made
    [token] = keeper.issue_tokens(1, submissions=1)
    fetched = fetch(keeper, token)
    hashed = token_store.hash_token(token)
    with keeper.database.reading() as db:
        assert [
            o.token
            for o in db.execute(store.offers.select())
            if o.offer_id == fetched.offer_id.to_bytes(8, "big")
        ] == [hashed]
    offer, _, _ = cycle(keeper, token, Device.create(tmp_path / "l.db", 10.0), rng)
    assert offer.offer_id == fetched.offer_id
    with keeper.database.reading() as db:
        assert (
            db.execute(store.offers.select().where(store.offers.c.token == hashed)).first() is None
        )
        if keeper.database.path is None:
            return
        db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    kept = keeper.database.path.read_bytes()
    assert (
        kept.count(hashed) <= 2 and token.encode() not in kept
    )  # in the table of tokens and its index


def test_rolling_back(made, tmp_path, rng):
    """θ of an earlier version under a new number; recovered as such; and learning goes on from there."""
    keeper = made
    device, model = Device.create(tmp_path / "l.db", 100.0), keeper.model("home")
    for token in keeper.issue_tokens(7, submissions=1):
        cycle(keeper, token, device, rng)
    keeper.wait_until_applied()
    before, received = model.version, model.received
    with keeper.database.reading() as db:
        old = model.unpack(store.load_version(db, "home", before - 1).state)
    assert keeper.roll_back("home", before - 1, who="me", reason="test") == before + 1
    keeper.wait_until_applied()
    assert (model.version, model.received) == (before + 1, received) and int(
        model.state.buffer_count
    ) == 0
    np.testing.assert_array_equal(model.state.theta, old.theta)
    assert keeper.versions("home", 2)[0][0] == before + 1
    for token in keeper.issue_tokens(4, submissions=1):
        assert cycle(keeper, token, device, rng)[2] is Verdict.ACCEPTED
    keeper.wait_until_applied()
    assert model.version == before + 2
    assert replay(keeper.database, "home").differs is None
    with pytest.raises(Exception, match="has no version 99999"):
        keeper.roll_back("home", 99_999, who="me", reason="test")


def test_rolling_back_drops_what_was_not_applied_yet(tmp_path, rng, monkeypatch):
    """However much of it there is; and replaying knows."""
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    try:
        keeper.create("home", CONFIG)
        device = Device.create(tmp_path / "l.db", 100.0)
        for token in keeper.issue_tokens(4, submissions=1):
            cycle(keeper, token, device, rng)
        keeper.wait_until_applied()
        with monkeypatch.context() as slow:
            slow.setattr(keeper.updater, "_advance", lambda model: None)
            for token in keeper.issue_tokens(8, submissions=1):  # enough for two more versions
                cycle(keeper, token, device, rng)
            with keeper.database.writing() as db:
                old, newest, accepted = store.lock_for_rollback(db, "home", 0)
                model = keeper.model("home")
                state = model.rolled_back(
                    model.unpack(old.state), model.unpack(newest.state), accepted
                )
                made = model.as_published(state)
                kept = store.Kept(
                    2, accepted, model.pack(state), 0, made.template.tail, made.policies
                )
                store.keep_versions(db, "home", 1, [kept])
        for token in keeper.issue_tokens(3, submissions=1):
            cycle(keeper, token, device, rng)
        keeper.wait_until_applied()
        made = replay(keeper.database, "home")
        assert (made.differs, made.versions, made.compared) == (None, 4, 4) and same(
            made.state, keeper.model("home").state
        )
    finally:
        keeper.close()


def test_an_updater_whose_session_ends_takes_a_new_one(new_database, tmp_path, rng):
    """At any moment, a transaction included: PostgreSQL restarts, or the network does."""
    keeper = Alone(new_database())
    try:
        keeper.create("home", CONFIG)
        device = Device.create(tmp_path / "l.db", 100.0)
        for token in keeper.issue_tokens(30, submissions=1):
            assert cycle(keeper, token, device, rng)[2] is Verdict.ACCEPTED
            end_session(keeper)
        wait_for(lambda: keeper.leads, "a session after the last one that was ended")
        keeper.wait_until_applied()
        assert (
            keeper.model("home").version == 10 and replay(keeper.database, "home").differs is None
        )
    finally:
        keeper.close()


def end_session(keeper):
    with keeper.database.reading() as db:
        db.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1"
        )
