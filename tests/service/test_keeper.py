"""The service without its transport: admission, counting once, and a state that is the replay of what was accepted."""

import jax
import numpy as np
import pytest

from pgc.config import configure
from pgc.device import Device
from pgc.service import store
from pgc.service.keeper import Keeper
from pgc.service.store import Verdict
from pgc.wire import Malformed, Offer

CONFIG = configure(epsilon=1.0, submissions=1000, buffer_size=3, local_episodes=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A keeper with one model; its tests use tokens of their own."""
    path = tmp_path_factory.mktemp("service") / "store.db"
    keeper = Keeper(store.sqlite_url(path))
    keeper.create("home", CONFIG)
    yield keeper, path
    keeper.close()


def cycle(keeper, token, device, rng):
    offer = keeper.offer(token, "home").result()
    assert isinstance(offer, Offer)
    report = device.release(offer, rng.standard_normal(len(offer.theta)))
    return offer, report, keeper.report(token, "home", report).result()


def test_a_token_is_good_for_exactly_its_reports(made, tmp_path, rng):
    keeper, _ = made
    [token] = keeper.issue_tokens(1, submissions=2)
    device = Device.create(tmp_path / "l.db", 10.0)
    first, report, verdict = cycle(keeper, token, device, rng)
    assert verdict is Verdict.ACCEPTED
    second, _, verdict = cycle(keeper, token, device, rng)
    assert verdict is Verdict.ACCEPTED and second.offer_id != first.offer_id
    assert keeper.offer(token, "home").result() is None
    before = keeper.models["home"].received
    assert keeper.report(token, "home", report).result() is Verdict.DUPLICATE  # acknowledged again, counted once
    assert keeper.models["home"].received == before


def test_who_asks_again_gets_the_same_offer(made):
    keeper, _ = made
    [token] = keeper.issue_tokens(1, submissions=1)
    first, again = (keeper.offer(token, "home").result() for _ in range(2))
    assert first.encode() == again.encode()


def test_refusals(made, tmp_path, rng):
    keeper, _ = made
    [token, other] = keeper.issue_tokens(2, submissions=1)
    device = Device.create(tmp_path / "l.db", 10.0)
    assert keeper.offer("nonsense", "home").result() is Verdict.UNKNOWN_TOKEN
    offer = keeper.offer(token, "home").result()
    report = device.release(offer, rng.standard_normal(len(offer.theta)))
    assert keeper.report("nonsense", "home", report).result() is Verdict.UNKNOWN_TOKEN
    assert keeper.report(other, "home", report).result() is Verdict.UNKNOWN_OFFER  # another's offer
    assert keeper.report(token, "home", report[:1] + bytes(8) + report[9:]).result() is Verdict.UNKNOWN_OFFER
    with pytest.raises(Malformed, match="report: "):
        keeper.report(token, "home", report + b"\0")
    with pytest.raises(Malformed, match="no model"):
        keeper.offer(token, "elsewhere")
    assert keeper.report(token, "home", report).result() is Verdict.ACCEPTED
    changed = report[:-1] + bytes([report[-1] ^ 1])
    assert keeper.report(token, "home", changed).result() is Verdict.CONFLICT
    assert keeper.revoke_token(token) and keeper.report(token, "home", report).result() is Verdict.UNKNOWN_TOKEN


def test_a_late_report_is_refused(made, tmp_path, rng):
    keeper, _ = made
    [token] = keeper.issue_tokens(1, submissions=1)
    offer = keeper.offer(token, "home").result()
    report = Device.create(tmp_path / "l.db", 10.0).release(offer, rng.standard_normal(len(offer.theta)))
    clock, keeper.clock = keeper.clock, lambda: offer.expires_at + 1
    try:
        assert keeper.report(token, "home", report).result() is Verdict.LATE
        renewed = keeper.offer(token, "home").result()
        assert renewed.offer_id != offer.offer_id
    finally:
        keeper.clock = clock


def test_what_is_kept_is_the_replay_of_what_was_accepted(made, tmp_path, rng):
    """Another process that opens the store has the same state, to the bit; and so has a model that takes the reports again."""
    keeper, path = made
    device = Device.create(tmp_path / "l.db", 100.0)
    tokens = keeper.issue_tokens(40, submissions=1)
    early = keeper.offer(tokens[-1], "home").result()  # of a version that will be old when it is answered
    for token in tokens[:-1]:
        assert cycle(keeper, token, device, rng)[2] is Verdict.ACCEPTED
    stale = device.release(early, rng.standard_normal(len(early.theta)))
    assert keeper.models["home"].version > early.policy_version + 5
    assert keeper.offer(tokens[-1], "home").result().encode() == early.encode()
    assert keeper.report(tokens[-1], "home", stale).result() is Verdict.ACCEPTED
    keeper.issue_tokens(1, 1)  # whatever was committed before is applied now
    again = Keeper(store.sqlite_url(path))
    try:
        mine, theirs = (jax.tree.leaves(k.models["home"].state) for k in (keeper, again))
        assert int(keeper.models["home"].received) >= 40
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        again.close()


def test_nothing_links_an_answered_offer_to_its_token(made, tmp_path, rng):
    keeper, path = made
    [token] = keeper.issue_tokens(1, submissions=1)
    offer, _, _ = cycle(keeper, token, Device.create(tmp_path / "l.db", 10.0), rng)
    with keeper._engine.begin() as db:
        row = db.execute(store.offers.select().where(store.offers.c.offer_id == offer.offer_id.to_bytes(8, "big"))).one()
    assert row.token is None and token.encode() not in path.read_bytes()


def test_rolling_back(made, tmp_path, rng):
    """θ of an earlier version under a new number; recovered as such; and learning goes on from there."""
    keeper, path = made
    device, model = Device.create(tmp_path / "l.db", 100.0), keeper.models["home"]
    for token in keeper.issue_tokens(7, submissions=1):
        cycle(keeper, token, device, rng)
    keeper.ping().result()
    before, received = model.version, model.received
    with keeper._engine.connect() as db:
        old = model.unpack(store.load_version(db, "home", before - 1).state)
    assert keeper.roll_back("home", before - 1) == before + 1
    keeper.ping().result()
    assert (model.version, model.received) == (before + 1, received) and int(model.state.buffer_count) == 0
    np.testing.assert_array_equal(model.state.theta, old.theta)
    assert keeper.versions("home", 2)[0][0] == before + 1
    for token in keeper.issue_tokens(4, submissions=1):
        assert cycle(keeper, token, device, rng)[2] is Verdict.ACCEPTED
    keeper.ping().result()
    assert model.version == before + 2
    again = Keeper(store.sqlite_url(path))
    try:
        np.testing.assert_array_equal(again.models["home"].state.theta, model.state.theta)
    finally:
        again.close()
    with pytest.raises(Exception, match="has no version 99999"):
        keeper.roll_back("home", 99_999)
