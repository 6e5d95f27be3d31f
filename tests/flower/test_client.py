"""The owner's mod: what goes into a Flower message, and what comes out, whatever the app does."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

import pgc
from pgc.device import Refusal
from pgc.flower.client import LocalPrivacy, private_app
from pgc.flower.messages import offer_message, read_reply


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def device(ledger):
    return pgc.Device.create(ledger, epsilon=1.0)


def trained(step):
    """An app for LocalDpMod: it returns θ after training, and, as apps do, metrics."""

    def app(message, context):
        theta = message.content["arrays"]["theta"].numpy()
        content = {
            "arrays": ArrayRecord({"theta": Array((theta - step).astype(np.float32))}),
            "metrics": MetricRecord({"gravity-of-my-home": 9.7}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


def never(message, context):
    raise AssertionError("the app was called")


def ask(mod, offer, context, app):
    return mod(offer_message(offer.encode(), 1, 60.0), context, app)


def test_bytes_go_in_and_bytes_come_out(device, make_offer, context):
    offer = make_offer()
    answer = ask(LocalPrivacy(lambda _: device), offer, context, trained(np.ones(6)))
    report = read_reply(answer)
    assert len(report) == 14
    assert pgc.Report.decode(report, offer).vector(offer).shape == (6,)
    assert device.balance.spent == 500_000_000


def test_nothing_else_that_the_app_returns_leaves(device, make_offer, context):
    answer = ask(LocalPrivacy(lambda _: device), make_offer(), context, trained(np.ones(6)))
    assert list(answer.content) == ["pgc"] and list(answer.content["pgc"]) == ["report"]


def test_the_report_points_where_the_app_moved_theta(tmp_path, make_offer, context):
    step, found = np.array([0, 0, 3.0, 0, 0, 0]), np.zeros(6)
    device = pgc.Device.create(tmp_path / "rich.db", epsilon=800.0)
    for number in range(200):
        offer = make_offer(number, epsilon=4.0)
        report = read_reply(ask(LocalPrivacy(lambda _: device), offer, context, trained(step)))
        found += pgc.Report.decode(report, offer).vector(offer) / 200
    # each estimate has mean step/‖step‖, and a norm of about 2: 6 standard errors are 0.4
    assert np.abs(found - step / 3).max() < 0.4


def test_a_retry_gets_the_same_bytes_and_costs_nothing(device, ledger, make_offer, context):
    offer, mod = make_offer(), LocalPrivacy(lambda _: device)
    first = read_reply(ask(mod, offer, context, trained(np.ones(6))))
    assert read_reply(ask(mod, offer, context, never)) == first
    restarted = LocalPrivacy(lambda _: pgc.Device.open(ledger))
    assert read_reply(ask(restarted, offer, context, never)) == first
    assert device.balance.spent == 500_000_000


def test_a_node_that_has_spent_its_budget_refuses_and_does_not_train(device, make_offer, context):
    mod = LocalPrivacy(lambda _: device)
    for number in (1, 2):
        assert isinstance(read_reply(ask(mod, make_offer(number), context, trained(1.0))), bytes)
    refusal = read_reply(ask(mod, make_offer(3), context, never))
    assert isinstance(refusal, Refusal) and "ε" in refusal.reason


def test_a_restart_does_not_forget_what_was_spent(device, ledger, make_offer, context):
    for number in (1, 2):
        ask(LocalPrivacy(lambda _: device), make_offer(number), context, trained(1.0))
    restarted = LocalPrivacy(lambda _: pgc.Device.open(ledger))
    assert isinstance(read_reply(ask(restarted, make_offer(3), context, never)), Refusal)


def test_an_offer_that_asks_for_too_much_is_refused(ledger, make_offer, context):
    careful = pgc.Device.create(ledger, epsilon=5.0, most_epsilon=0.5)
    refusal = read_reply(
        ask(LocalPrivacy(lambda _: careful), make_offer(epsilon=2.0), context, never)
    )
    assert isinstance(refusal, Refusal) and "at most" in refusal.reason
    assert careful.balance.spent == 0


@pytest.mark.parametrize("bad", [b"", b"\xd1", b"nonsense" * 40])
def test_bytes_that_are_no_offer_are_refused(device, bad, context):
    answer = LocalPrivacy(lambda _: device)(offer_message(bad, 1, 60.0), context, never)
    assert isinstance(read_reply(answer), Refusal)
    assert device.balance.spent == 0


@pytest.mark.parametrize("kind", ["evaluate", "query", "train.other"])
def test_messages_of_other_types_are_refused(device, make_offer, context, kind):
    record = ConfigRecord({"offer": make_offer().encode()})
    message = Message(RecordDict({"pgc": record}), 1, kind)
    answer = LocalPrivacy(lambda _: device)(message, context, never)
    assert isinstance(read_reply(answer), Refusal)


def boom(message, context):
    raise RuntimeError("the pole of home 7 fell")


def wrong_shape(message, context):
    arrays = ArrayRecord({"theta": Array(np.zeros(99, np.float32))})
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


def not_a_number(message, context):
    return trained(np.full(6, np.nan))(message, context)


@pytest.mark.parametrize("app", [boom, wrong_shape, not_a_number, lambda m, c: None])
def test_an_app_that_fails_is_answered_for_as_one_that_works(device, make_offer, context, app):
    answer = ask(LocalPrivacy(lambda _: device), make_offer(), context, app)
    assert len(read_reply(answer)) == 14 and not answer.has_error()
    assert device.balance.spent == 500_000_000


def test_a_node_without_a_ledger_refuses_and_does_not_say_where_it_looked(
    tmp_path, make_offer, context
):
    lost = LocalPrivacy(lambda _: pgc.Device.open(tmp_path / "lost.db"))
    refusal = read_reply(ask(lost, make_offer(), context, never))
    assert refusal == Refusal("this node's ledger cannot be used")


class Player:
    def objection(self, offer):
        return None

    def play(self, offer, stop):
        return np.ones(offer.query.dim), True


@pytest.mark.parametrize("kind", ["train", "evaluate", "query"])
def test_a_private_app_answers_offers_and_refuses_the_rest(tmp_path, make_offer, context, kind):
    device = pgc.Device.create(tmp_path / "d.db", 1.0, player=Player(), slot_seconds=0.0)
    message = Message(RecordDict({"pgc": ConfigRecord({"offer": make_offer().encode()})}), 1, kind)
    answer = read_reply(private_app(lambda _: device)(message, context))
    assert isinstance(answer, bytes if kind == "train" else Refusal)


def test_the_noisy_boolean_is_told_by_the_app(tmp_path, make_offer, context):
    device = pgc.Device.create(tmp_path / "d.db", 3.0)

    def app(message, context):
        answer = trained(np.ones(6))(message, context)
        answer.content["pgc"] = ConfigRecord({"success": True})
        return answer

    offer = make_offer(score_epsilon=0.5)
    report = read_reply(ask(LocalPrivacy(lambda _: device), offer, context, app))
    assert pgc.Report.decode(report, offer).score_bit in (True, False)
    assert device.balance.spent == 1_000_000_000
