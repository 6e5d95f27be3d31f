"""The aggregator's side over a Grid that is in this process: who is asked, and which reports count."""

from concurrent.futures import Future
from contextlib import closing

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.serverapp import Grid
from sqlalchemy.exc import OperationalError

import pgc
from pgc.config import TrainConfig
from pgc.device import Refusal
from pgc.flower.messages import LATER, offer_message, read_offer, read_reply, reply
from pgc.flower.server import Collection
from pgc.randomise.report import draw_report
from pgc.service.alone import Alone
from pgc.service.writer import Unwritten
from pgc.wire import Malformed


class Nodes(Grid):
    """Nodes without a network: each answers a message by a function, at once."""

    def __init__(self, answers):
        self.answers, self.sent, self.replies = answers, [], {}

    def get_node_ids(self):
        return list(self.answers)

    def push_messages(self, messages):
        for message in messages:
            number = str(len(self.sent))
            message.metadata.__dict__["_message_id"] = number
            self.sent.append(message)
            self.replies[number] = self.answers[message.metadata.dst_node_id](message)
            yield number

    def pull_messages(self, message_ids):
        found = [self.replies.pop(number, None) for number in message_ids]
        return [message for message in found if message is not None]

    set_run = run = create_message = send_and_receive = None


def honest(message):
    offer = pgc.Offer.decode(read_offer(message))
    return reply(message, draw_report(offer, np.ones(offer.query.dim), True))


def spent(message):
    return reply(message, Refusal("nothing is left"))


def junk(message):
    return Message(RecordDict({"pgc": ConfigRecord({"report": b"gravity"})}), reply_to=message)


def down(message):
    return Message(Error(5, "node unavailable"), reply_to=message)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    config = TrainConfig(own_policy=4, mechanism="index", epsilon=1.0, buffer_size=2)
    with closing(Alone(f"sqlite:///{folder / 'store.db'}")) as service:
        service.create("default", config, np.zeros(4, np.float32))
        yield service


def collect(service, nodes, reports, **more):
    more = {"patience": 0.5, "pause": 0.01} | more
    return Collection(service, "default", reports=reports, **more).start(nodes)


def test_reports_are_collected_and_move_theta(service):
    before = service.model("default").version
    counts = collect(service, Nodes(dict.fromkeys(range(6), honest)), 6, at_once=3)
    service.wait_until_applied()
    assert counts == {"accepted": 6}
    assert service.model("default").version == before + 3


def test_no_node_gives_more_than_it_is_asked_for(service):
    nodes = Nodes({7: honest})
    assert collect(service, nodes, 5, reports_per_node=2) == {"accepted": 2}
    assert len(nodes.sent) == 2


def test_a_node_that_refuses_is_not_asked_again(service):
    nodes = Nodes({1: spent, 2: honest})
    assert collect(service, nodes, 5, reports_per_node=2) == {"accepted": 2, "refused": 1}


def test_what_is_no_report_is_not_counted(service):
    assert collect(service, Nodes({1: junk, 2: honest}), 5) == {"accepted": 1, "malformed": 1}


def test_a_node_that_was_down_gets_the_same_offer_again(service, monkeypatch):
    monkeypatch.setattr("pgc.flower.server.RETRY_SECONDS", 0.0)
    times = iter([down, honest])
    nodes = Nodes({1: lambda message: next(times)(message)})
    assert collect(service, nodes, 1) == {"unavailable": 1, "accepted": 1}
    assert read_offer(nodes.sent[0]) == read_offer(nodes.sent[1])


def test_a_node_that_cannot_answer_now_is_asked_again(service, monkeypatch):
    """Its ledger was locked, say: no other refusal is asked again."""
    monkeypatch.setattr("pgc.flower.server.RETRY_SECONDS", 0.0)
    times = iter([lambda message: reply(message, LATER), honest])
    assert collect(service, Nodes({1: lambda message: next(times)(message)}), 1) == {
        "unavailable": 1,
        "accepted": 1,
    }


def test_a_store_that_fails_for_a_while_loses_no_report(service, monkeypatch):
    """Offers wait, and what a node has paid for is tried again."""
    real, failures = (service.offer, service.report), iter(range(4))

    def failing(method):
        def asked(*arguments):
            if next(failures, None) is None:
                return method(*arguments)
            made = Future()
            made.set_exception(Unwritten("the disk is full"))
            return made

        return asked

    issue, once = service.issue_tokens, iter([1])

    def locked(*arguments):  # it writes by itself, and raises what the database raises
        if next(once, None):
            raise OperationalError("INSERT", {}, Exception("database is locked"))
        return issue(*arguments)

    monkeypatch.setattr("pgc.flower.server.FAILURE_SECONDS", 0.01)
    monkeypatch.setattr(service, "issue_tokens", locked)
    monkeypatch.setattr(service, "offer", failing(real[0]))
    monkeypatch.setattr(service, "report", failing(real[1]))
    assert collect(service, Nodes({1: honest}), 1, patience=60.0) == {"accepted": 1}
    failures = iter(range(1))
    monkeypatch.setattr(service, "offer", real[0])
    assert collect(service, Nodes({2: honest}), 1, patience=60.0) == {"accepted": 1}


def test_a_report_that_comes_twice_counts_once(service):
    collection = Collection(service, "default", reports=2, reports_per_node=2)
    nodes = Nodes({1: honest})
    collection.ask(nodes)
    (first,) = nodes.pull_messages(["0"])
    assert collection.take(first) == "accepted"
    assert collection.take(first) == "unknown message"
    # and as the answer to another message
    collection.ask(nodes)
    again = Message(RecordDict({"pgc": first.content["pgc"]}), reply_to=nodes.sent[1])
    assert collection.take(again) == "duplicate"


def test_a_report_that_comes_after_its_offer_expired_is_late(tmp_path):
    now = [1_000_000.0]
    config = TrainConfig(own_policy=4, mechanism="index", epsilon=1.0)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with closing(Alone(url, clock=lambda: now[0], offer_seconds=60)) as service:
        service.create("default", config, np.zeros(4, np.float32))
        collection, nodes = Collection(service, "default", reports=1), Nodes({1: honest})
        collection.ask(nodes)
        now[0] += 61
        (reply,) = nodes.pull_messages(["0"])
        assert collection.take(reply) == "the offer has expired"


def test_a_reply_is_a_report_or_a_refusal_and_nothing_else(make_offer):
    asked = offer_message(make_offer().encode(), 1, 60.0)
    for record in ({}, {"report": "text"}, {"report": b"1", "refusal": "2"}, {"refusal": 3}):
        answer = Message(RecordDict({"pgc": ConfigRecord(record)}), reply_to=asked)
        with pytest.raises(Malformed):
            read_reply(answer)
