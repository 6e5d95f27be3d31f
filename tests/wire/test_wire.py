"""Offers and reports as bytes: round trips, sizes, strictness, vectors, and a fuzzer."""

import contextlib
import json
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pgc.randomise.exact.lattice import LARGEST
from pgc.randomise.exact.words import public_words
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.release import release, release_score
from pgc.wire import Malformed, Offer, Query, Report
from pgc.wire.report import size_of
from tests.length import length
from tests.wire.samples import KINDS, all_offers, make_offer

OFFERS = all_offers()
VECTORS = Path(__file__).parents[2] / "docs" / "wire-vectors.json"
FUZZ = length(110_000, 1_000_000)


def a_report(offer: Offer) -> Report:
    bit = None
    if offer.query.score_nano_epsilon:
        bit = release_score(ScoreBit(epsilon=1.0), True)
    code = release(offer.query.mechanism, np.ones(offer.query.dim), offer.public_seed)
    return Report(
        offer_id=offer.offer_id, policy_version=offer.policy_version, code=code, score_bit=bit
    )


def in_support(offer: Offer, report: Report) -> bool:
    query = offer.query
    if (report.score_bit is None) != (query.score_nano_epsilon == 0):
        return False
    if query.name == "laplace":
        return len(report.code) == query.dim and all(
            type(y) is int and abs(y) <= LARGEST for y in report.code
        )
    if query.name == "index":
        return type(report.code) is int and 0 <= report.code < query.size
    return report.code.dtype == bool and report.code.shape == (max(1, query.size),)


@pytest.mark.parametrize(
    "offer", OFFERS, ids=lambda o: f"{o.query.name}-{o.query.flags}-{o.query.dim}-{o.query.cost}"
)
def test_round_trips(offer):
    data = offer.encode()
    again = Offer.decode(data)
    assert again.encode() == data and again.query == offer.query and again.digest == offer.digest
    np.testing.assert_array_equal(again.theta, offer.theta)
    report = a_report(offer)
    sent = report.encode(offer)
    back = Report.decode(sent, again)
    assert back.encode(again) == sent and len(sent) == size_of(offer) and in_support(again, back)
    np.testing.assert_array_equal(np.asarray(back.code), np.asarray(report.code))
    vector = back.vector(again)
    assert vector.shape == offer.theta.shape and np.isfinite(vector).all()


def test_reports_of_bits_take_at_most_16_bytes():
    for offer in OFFERS:
        assert offer.query.name == "laplace" or size_of(offer) <= 16
    most = Query.of(
        make_mechanism("prs", dim=112, epsilon=10.0, clip=1.0, reduced_dim=23), score_epsilon=1.0
    )
    large = Query.of(
        make_mechanism("index", dim=112, epsilon=10.0, clip=1.0, code_size=2**16), score_epsilon=1.0
    )
    for query in (most, large):
        assert (
            size_of(
                Offer(offer_id=1, policy_version=1, query=query, theta=np.zeros(112, np.float32))
            )
            == 16
        )
    with pytest.raises(Malformed, match="24 bits; 1 to 23"):
        Query.of(make_mechanism("prs", dim=112, epsilon=10.0, clip=1.0, reduced_dim=24))


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_says_nothing_about_the_gradient(kind):
    offer = make_offer(kind, score_epsilon=0.1)
    for gradient in (np.zeros(6), np.full(6, np.nan), np.full(6, 1e300), np.arange(6), -np.ones(6)):
        code = release(offer.query.mechanism, gradient, offer.public_seed)
        report = Report(offer_id=offer.offer_id, policy_version=7, code=code, score_bit=False)
        assert len(report.encode(offer)) == size_of(offer)


def test_a_report_is_decoded_as_the_core_would(monkeypatch):
    """The core and the envelope make the same of the same bits, for each mechanism that compares integers."""
    rng = np.random.default_rng(1)
    for offer in OFFERS:
        mechanism = offer.query.mechanism
        if offer.query.name == "laplace":
            continue
        g = rng.standard_normal(mechanism.dim)
        secret = rng.integers(0, 2**32, mechanism.secret_words, np.uint32)
        monkeypatch.setattr(
            "pgc.randomise.mechanisms.base.secret_words", lambda n, secret=secret: secret
        )
        code = release(mechanism, g, offer.public_seed)
        bit = False if offer.query.score_nano_epsilon else None
        sent = Report(offer_id=offer.offer_id, policy_version=7, code=code, score_bit=bit).encode(
            offer
        )
        core = mechanism.randomize(
            g, public_words(offer.public_seed, mechanism.public_words), secret
        )
        core = core if offer.basis is None else offer.basis @ core
        np.testing.assert_allclose(Report.decode(sent, offer).vector(offer), core, rtol=1e-6)


OFFER, REPORT = make_offer("index"), make_offer("prs", score_epsilon=0.5)
WRONG = {
    "empty": (b"", "ends after 0 bytes"),
    "another version": (b"\xd2" + OFFER.encode()[1:], "begins with 0xd2"),
    "one byte less": (OFFER.encode()[:-1], "1 too early"),
    "one byte more": (OFFER.encode() + b"\0", "1 bytes too many"),
    "not finite": (OFFER.encode()[:-4] + b"\0\0\x80\x7f", "not finite"),
    "a huge θ": (
        OFFER.encode()[:31] + b"\xff\xff\xff\xff" + OFFER.encode()[35:],
        "θ of 4294967295 numbers",
    ),
    "an unknown mechanism": (
        OFFER.encode()[:39] + b"\x09" + OFFER.encode()[40:],
        "mechanism 9 is unknown",
    ),
    "no price": (OFFER.encode()[:41] + bytes(8) + OFFER.encode()[49:], "epsilon is out of range"),
    "a text": (
        b"hello world, this is not an offer at all, but long enough for a header" * 3,
        "begins with 0x68",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_offer_is_rejected_with_a_reason(what):
    data, reason = WRONG[what]
    with pytest.raises(Malformed, match=reason):
        Offer.decode(data)


def test_a_wrong_report_is_rejected_with_a_reason():
    sent = a_report(REPORT).encode(REPORT)
    for data, reason in (
        (b"", "ends after 0 bytes"),
        (sent[:-1], "0 bytes of payload in place of 1"),
        (sent + b"\0", "2 bytes of payload in place of 1"),
        (sent[:-1] + b"\x10", "bits that mean nothing"),
        (b"\xe2" + sent[1:], "begins with 0xe2"),
        (sent[:1] + bytes(8) + sent[9:], "answers offer 0000000000000000"),
        (sent[:9] + bytes(4) + sent[13:], "of policy version 0, not 7"),
    ):
        with pytest.raises(Malformed, match=reason):
            Report.decode(data, REPORT)
    small, numbers = make_offer("index, lifted"), make_offer("laplace", score_epsilon=0.5)
    with pytest.raises(Malformed, match="number 100 of a code of 100"):
        Report.decode(a_report(small).encode(small)[:13] + b"\x64", small)
    sent = a_report(numbers).encode(numbers)
    with pytest.raises(Malformed, match="out of range"):
        Report.decode(sent[:13] + b"\0\0\0\x80" + sent[17:], numbers)
    with pytest.raises(Malformed, match="bits that mean nothing"):
        Report.decode(sent[:-1] + b"\2", numbers)


@given(
    st.sampled_from(["duchi", "prs", "index", "laplace"]), st.integers(1, 2**63), st.integers(1, 40),
    st.integers(1, 20 * 10**9), st.integers(0, 10**9), st.integers(0, 2**32 - 1), st.integers(1, 65535), st.floats(0, 1),
)  # fmt: skip
@example("duchi", 1, 1, 100_000, 0, 0, 1, 0.0)  # the smallest ε that an offer may have
@settings(max_examples=300, deadline=None)
def test_any_offer_survives_the_wire(
    kind, offer_id, dim, nano, score_nano, version, episodes, alpha
):
    dim = max(dim, 2)
    sizes = {"prs": {"size": min(dim, 5)}, "index": {"size": 37, "nearest": 5}}.get(kind, {})
    number = {"laplace": 1, "prs": 2, "duchi": 4, "index": 5}[kind]
    if nano < 10**5:
        with pytest.raises(Malformed):
            Query(kind=number, nano_epsilon=nano, dim=dim, **sizes)
        return
    query = Query(kind=number, nano_epsilon=nano, score_nano_epsilon=score_nano, dim=dim, **sizes)
    offer = Offer(
        offer_id=offer_id,
        policy_version=version,
        query=query,
        episodes=episodes,
        alpha=alpha,
        theta=np.ones(dim, np.float32),
    )
    again = Offer.decode(offer.encode())
    assert again.encode() == offer.encode() and again.query == query and again.alpha == alpha


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few small changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        what = rng.random()
        at = rng.randrange(len(changed)) if changed else 0
        if what < 0.45 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif what < 0.7 and changed:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif what < 0.78:
            changed = changed[:at]
        elif what < 0.86:
            changed += rng.randbytes(rng.randint(1, 9))
        elif what < 0.93 and changed:
            del changed[at : at + rng.randint(1, 4)]
        else:
            changed[at:at] = rng.randbytes(rng.randint(1, 4))
    return bytes(changed)


EACH = 250


@given(st.integers(0, 2**64 - 1))
@settings(
    max_examples=FUZZ // EACH + 1,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
def fuzz(seed):
    rng = random.Random(seed)
    sent = [(o, o.encode(), a_report(o).encode(o)) for o in rng.sample(OFFERS, 5)]
    for _ in range(EACH):
        offer, offer_bytes, report_bytes = rng.choice(sent)
        fuzz.seen += 1
        try:
            if rng.random() < 0.5:
                data = mutated(offer_bytes, rng)
                assert Offer.decode(data).encode() == data
            else:
                data = mutated(
                    report_bytes[9:], rng
                )  # the header's checks would reject most of the others
                report = Report.decode(report_bytes[:9] + data, offer)
                assert in_support(offer, report) and report.encode(offer) == report_bytes[:9] + data
            fuzz.decoded += 1
        except Malformed as error:
            fuzz.explained += (
                str(error).startswith(("offer: ", "report: ")) and len(str(error)) < 300
            )


@pytest.mark.soak
def test_fuzz():
    """Any bytes decode to what the mechanism could have made, or are rejected with a reason."""
    fuzz.seen = fuzz.decoded = fuzz.explained = 0
    fuzz()
    assert fuzz.explained == fuzz.seen - fuzz.decoded
    assert fuzz.seen >= min(100_000, FUZZ) and fuzz.decoded >= fuzz.seen / 5, (
        fuzz.seen,
        fuzz.decoded,
    )


def test_no_bytes_make_the_decoder_allocate():
    """Sizes are checked against what is there before anything is made of them."""
    rng = random.Random(0)
    everything = [o.encode() for o in OFFERS]
    hostile = [mutated(rng.choice(everything), rng) for _ in range(1500)]
    hostile += [d[:31] + rng.randbytes(8) + d[39:] for d in everything] + [
        d[:65] + b"\xff" * 8 + d[73:] for d in everything
    ]
    tracemalloc.start()
    for data in hostile:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with contextlib.suppress(Malformed):
            Offer.decode(data)
        assert tracemalloc.get_traced_memory()[1] - before < 64 * 1024 + 8 * len(data)
    tracemalloc.stop()


def test_vectors():
    """docs/wire-vectors.json: what another implementation must make of the same bytes."""
    vectors = json.loads(VECTORS.read_text())
    assert {v["mechanism"] for v in vectors["reports"]} >= {
        "laplace",
        "prs",
        "prs-sign",
        "duchi",
        "index",
    }
    for v in vectors["reports"]:
        offer = Offer.decode(bytes.fromhex(v["offer"]))
        report = Report.decode(bytes.fromhex(v["report"]), offer)
        query = offer.query
        assert (query.name, query.dim, query.nano_epsilon) == (
            v["mechanism"],
            v["n"],
            v["nano_epsilon"],
        )
        assert (f"{offer.offer_id:016x}", offer.expires_at, offer.alpha) == (
            v["offer_number"],
            v["expires_at"],
            v["alpha"],
        )
        assert (
            np.asarray(report.code).astype(int).tolist() == v["code"]
            and report.score_bit == v["noisy_boolean"]
        )
        assert public_words(offer.public_seed, 2).tolist() == v["first_public_words"]
        np.testing.assert_allclose(report.vector(offer), v["estimate"], rtol=1e-5, atol=1e-7)
        assert report.encode(offer).hex() == v["report"] and offer.encode().hex() == v["offer"]
    for v in vectors["refused"]:
        offer = Offer.decode(bytes.fromhex(v["offer"])) if "report" in v else None
        with pytest.raises(Malformed):
            Offer.decode(bytes.fromhex(v["offer"])) if offer is None else Report.decode(
                bytes.fromhex(v["report"]), offer
            )
