"""Who may have an offer and which reports count: the rules, without a database."""

import random
from collections import Counter

from pgc.service.admission import Admission, Issued, OfferRequest, ReportRequest, Verdict

NOW = 1000


def ask(token, offer_id, model="m", version=0, expires_at=NOW + 10):
    return OfferRequest(Issued(offer_id, version, expires_at, model, token))


def answer(token, offer_id, payload=b"x", model="m", version=0):
    return ReportRequest(token, model, offer_id, version, payload)


def test_one_token_one_report():
    admission = Admission(NOW, {b"t": 1}, [], [])
    first = admission.decide(ask(b"t", 1))
    assert (
        first.offer_id == 1 and admission.decide(ask(b"t", 2)) == first
    )  # the same until it is answered
    assert admission.decide(ask(b"other", 3)) is Verdict.UNKNOWN_TOKEN
    assert admission.decide(answer(b"t", 1)) is Verdict.ACCEPTED
    assert admission.decide(answer(b"t", 1)) is Verdict.DUPLICATE
    assert admission.decide(answer(b"t", 1, b"y")) is Verdict.CONFLICT
    assert admission.decide(ask(b"t", 4)) is Verdict.USED_UP
    assert admission.spent == {b"t": 1} and [a.offer_id for a in admission.accepted] == [1]


def test_no_more_open_offers_than_reports_are_left():
    """Or a device would be charged for a report that is not counted."""
    admission = Admission(NOW, {b"t": 1}, [], [])
    assert isinstance(admission.decide(ask(b"t", 1, "a")), Issued)
    assert admission.decide(ask(b"t", 2, "b")) is Verdict.USED_UP


def test_whose_offer_it_is():
    held = Issued(7, 3, NOW + 5, "m", b"t")
    for wrong in (
        answer(b"u", 7, version=3),
        answer(b"t", 7, version=2),
        answer(b"t", 7, version=3, model="n"),
        answer(b"t", 8),
    ):
        assert Admission(NOW, {b"t": 1, b"u": 1}, [held], []).decide(wrong) is Verdict.UNKNOWN_OFFER
    assert (
        Admission(NOW, {b"t": 1}, [held], []).decide(answer(b"t", 7, version=3)) is Verdict.ACCEPTED
    )


def test_expiry():
    late = Issued(7, 0, NOW, "m", b"t")
    admission = Admission(NOW, {b"t": 1}, [late], [])
    assert admission.decide(answer(b"t", 7)) is Verdict.LATE
    assert admission.decide(ask(b"t", 8)).offer_id == 8 and not admission.accepted


def test_any_order_of_requests_counts_each_report_once():
    """Against a plain model of the rules: random groups, what is to be written carried from one to the next."""
    chance = random.Random(0)
    for _ in range(200):
        left = {bytes([t]): chance.randint(0, 3) for t in range(3)}
        start, opened, answered, numbers = dict(left), {}, {}, iter(range(1, 10_000))
        accepted = Counter()
        for _ in range(10):
            admission = Admission(
                NOW,
                dict(left),
                list(opened.values()),
                [a._replace(token=b"") for a in answered.values()],
            )
            for _ in range(chance.randint(1, 8)):
                token = bytes([chance.randrange(4)])
                if chance.random() < 0.5:
                    got = admission.decide(ask(token, next(numbers), chance.choice("mn")))
                    assert got is not Verdict.ACCEPTED
                    if isinstance(got, Issued):
                        assert got.token == token
                        opened.setdefault(got.offer_id, got)
                    continue
                some = chance.choice([*opened.values(), *answered.values(), answer(token, 99_999)])
                request = ReportRequest(
                    token, some.model, some.offer_id, some.version, bytes([chance.randrange(2)])
                )
                verdict = admission.decide(request)
                if verdict is Verdict.ACCEPTED:
                    assert (
                        opened.pop(request.offer_id).token == token
                        and request.offer_id not in answered
                    )
                    answered[request.offer_id] = request
                    accepted[token] += 1
                elif verdict in (Verdict.DUPLICATE, Verdict.CONFLICT):
                    assert (answered[request.offer_id].payload == request.payload) == (
                        verdict is Verdict.DUPLICATE
                    )
            for token, n in admission.spent.items():
                left[token] -= n
        for token, n in start.items():
            held = sum(offer.token == token for offer in opened.values())
            assert accepted[token] == n - left[token] and 0 <= held <= left[token]
