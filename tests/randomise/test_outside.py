"""A mechanism from outside the package goes wherever those of pgc go: simulation, device, service, audit, inspection."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from pgc.mechanisms import (
    Duchi,
    Guarantee,
    IndexCode,
    Laplace,
    NormLift,
    find_mechanism,
    make_mechanism,
    register,
)

import pgc
from pgc.config import configure
from pgc.config.problem import build
from pgc.device.device import Device, Refusal
from pgc.errors import PgcError
from pgc.privacy.audit.audit import audit_mechanism
from pgc.privacy.inspection import inspect_offer, inspect_report
from pgc.randomise.mechanisms.registry import MECHANISMS, ON_THE_WIRE, on_the_wire
from pgc.service.model import Model
from pgc.wire import Malformed, Offer, Query
from tests.waiting import LIMIT

NAME = "tests.randomise.outside:CoordinateSign"
SMALL = dict(
    mechanism=NAME,
    submissions=30,
    trials=2,
    workers=2,
    eval_episodes=2,
    local_episodes=2,
    buffer_size=5,
)


@pytest.fixture(scope="module", autouse=True)
def _outside():
    """The mechanism, known while these tests run and not to others."""
    before = dict(MECHANISMS), dict(ON_THE_WIRE)
    yield find_mechanism(NAME)
    for table, was in zip((MECHANISMS, ON_THE_WIRE), before, strict=True):
        table.clear()
        table.update(was)
    del sys.modules[NAME.partition(":")[0]]


@pytest.fixture
def outside():
    return find_mechanism(NAME)


@pytest.mark.more
def test_simulated(tmp_path):
    run = pgc.train(**SMALL, out=tmp_path / "run")
    assert run.summary["mechanism"] == "coordinate-sign" and run.summary["epsilon"] == 1.0


def test_served_by_a_model_and_released_by_a_device_that_names_it(tmp_path, outside):
    model = Model("default", configure(**SMALL))
    offer = Offer.decode(model.published.template.renumbered(7, 0))
    assert offer.query.name == "coordinate-sign" and offer.query.mechanism == outside(
        dim=offer.query.dim, epsilon=1.0, clip=1.0
    )
    gradient = np.ones(len(offer.theta))
    unwilling = Device.create(tmp_path / "unwilling.db", 10.0)
    assert unwilling.release(offer, gradient) == Refusal(
        "this device does not accept coordinate-sign"
    )
    device = Device.create(tmp_path / "willing.db", 10.0, accepts=["coordinate-sign"])
    report = device.release(offer.encode(), gradient)
    assert (
        isinstance(report, bytes) and len(report) == 14 and device.balance.spent == offer.query.cost
    )
    basis = model.published.template.basis
    estimate = model.estimate(7, report[13:], basis)
    reported = np.linalg.lstsq(basis, estimate, rcond=None)[0]
    assert np.count_nonzero(np.abs(reported) > 1e-3) == 1  # one coordinate, whatever the gradient
    assert model.accept([estimate], [0]) == 1 and model.received == 1
    assert "randomised by coordinate-sign" in inspect_offer(offer)["asks for"]
    assert inspect_report(report, offer)["code"].startswith("1 noisy bit(s)")


def test_audited_as_it_is_released(bits_of_a_seed):
    row = audit_mechanism(
        make_mechanism("coordinate-sign", dim=2, epsilon=2.0, clip=1.0), "release", seed=0
    )
    assert row.verdict == "pass" and row.lower_bound > 1.0  # the search finds the event by itself


def test_its_number_is_its_own(outside):
    changed = type("Other", (outside,), {"name": "another", "wire_number": 200})
    with pytest.raises(PgcError, match="'coordinate-sign' has the wire_number 200 already"):
        register(changed)
    with pytest.raises(PgcError, match="from 128 to 255, not 5"):
        register(type("Other", (outside,), {"name": "another", "wire_number": 5}))
    derived = type("Derived", (outside,), {})
    with pytest.raises(PgcError, match="an offer cannot ask for"):
        Query.of(derived(dim=2, epsilon=1.0, clip=1.0))
    with pytest.raises(PgcError, match="flags"):
        replace(Query.of(outside(dim=2, epsilon=1.0, clip=1.0)), flags=2)


@pytest.fixture
def made(outside):
    """Makes and registers a mechanism like the one from outside, with some of it changed."""
    before = dict(MECHANISMS), dict(ON_THE_WIRE)

    def make(**changes):
        return register(
            type(
                "Changed",
                (outside,),
                {"name": "changed", "wire_number": 201, "integers": True, **changes},
            )
        )

    yield make
    for table, was in zip((MECHANISMS, ON_THE_WIRE), before, strict=True):
        table.clear()
        table.update(was)


def offer_for(mechanism):
    return Offer(
        offer_id=1,
        policy_version=0,
        query=Query.of(mechanism),
        theta=np.zeros(mechanism.dim, np.float32),
    )


def test_what_is_charged_is_what_is_promised(made):
    twice = made(
        guarantee=property(
            lambda self: Guarantee(
                epsilon=2 * self.epsilon, nominal_epsilon=self.epsilon, statement=""
            )
        )
    )
    with pytest.raises(PgcError, match="does not promise the ε that is charged"):
        Query.of(twice(dim=2, epsilon=1.0, clip=1.0))
    careless = made(
        from_wire=classmethod(
            lambda cls, form, *, dim, epsilon: cls(dim=dim, epsilon=5.0, clip=1.0)
        )
    )
    with pytest.raises(PgcError, match="does not promise the ε that is charged"):
        Query.of(careless(dim=2, epsilon=1.0, clip=1.0))


def test_a_mechanism_that_fails_for_some_gradients_is_not_silent(made, tmp_path, outside):
    """A silence would tell of the gradient, and cost nothing."""

    def prepare(self, gradient, public):
        if not np.isfinite(gradient).all():
            raise ValueError("not a number")
        return outside.prepare(self, gradient, public)

    offer = offer_for(made(prepare=prepare)(dim=2, epsilon=1.0, clip=1.0))
    device = Device.create(tmp_path / "l.db", 10.0, accepts=["changed"])
    assert (
        isinstance(device.release(offer, [np.nan, 1.0]), bytes)
        and device.balance.spent == offer.query.cost
    )


@pytest.mark.parametrize(
    "changes",
    [
        dict(pack=lambda self, code: 2),  # a bit beside the code's
        dict(draw=lambda self, thresholds, secret: np.array([True, True])),
        dict(prepare=lambda self, gradient, public: 1 / 0),
    ],
)
def test_what_cannot_randomise_at_all_is_refused_before_anything_is_played(changes, made, tmp_path):
    offer = offer_for(made(**changes)(dim=2, epsilon=1.0, clip=1.0))
    device = Device.create(tmp_path / "l.db", 10.0, accepts=["changed"])
    answer = device.release(offer, [1.0, 2.0])
    assert (
        isinstance(answer, Refusal)
        and "cannot randomise" in answer.reason
        and device.balance.spent == 0
    )


def test_numbers_that_a_mechanism_cannot_take_are_refused(made):
    failing = made(from_wire=classmethod(lambda cls, form, *, dim, epsilon: 1 / (form.size - 3)))
    query = Query.of(make_mechanism("coordinate-sign", dim=2, epsilon=1.0, clip=1.0))
    with pytest.raises(Malformed, match="ZeroDivisionError"):
        replace(query, kind=failing.wire_number, size=3)
    with pytest.raises(Malformed, match="cannot be lifted"):
        replace(query, flags=1, clip=0.5)
    with pytest.raises(Malformed, match="has no clip"):
        replace(query, clip=7.0)


def test_exactness_is_not_inherited():
    derived = type("Derived", (IndexCode,), {})(dim=4, epsilon=1.0, code_size=16)
    with pytest.raises(PgcError, match="no exact form"):
        derived.release(np.ones(4), b"seed")
    with pytest.raises(PgcError, match="no exact form"):
        make_mechanism("privunit", dim=4, epsilon=1.0, clip=1.0).release(np.ones(4), b"seed")
    with pytest.raises(PgcError, match="no exact form of its own"):
        type("Derived", (Laplace,), {"integers": True})(dim=4, epsilon=1.0, clip=1.0).release(
            np.ones(4), b"seed"
        )
    with pytest.raises(PgcError, match="around a mechanism of 5"):
        NormLift(dim=3, epsilon=0.1, clip=1.0, inner=Duchi(dim=4, epsilon=5.0))
    lifted = NormLift(dim=3, epsilon=1.0, clip=1.0, inner=Duchi(dim=4, epsilon=1.0))
    leaky = type("Leaky", (NormLift,), {})(dim=3, epsilon=1.0, clip=1.0, inner=lifted.inner)
    assert on_the_wire(lifted) and not on_the_wire(leaky)


def test_the_command_line_is_told_of_it(outside, tmp_path, capsys):
    """In a process that has not imported it, `pgc inspect` needs --mechanism."""
    (tmp_path / "offer").write_bytes(offer_for(outside(dim=2, epsilon=1.0, clip=1.0)).encode())
    command = [sys.executable, "-m", "pgc.cli", "inspect", str(tmp_path / "offer")]
    unknown = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert unknown.returncode == 2 and "mechanism 200 is unknown" in unknown.stderr
    known = subprocess.run(
        [*command, "--mechanism", NAME], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert "randomised by coordinate-sign" in known.stdout


def test_one_that_jax_cannot_compile_is_refused_in_one_line(monkeypatch):
    """Such as one whose words are too few for this d."""

    class Short(Duchi):
        name = "short"

        def prepare(self, gradient, public):
            return super().prepare(gradient + gradient[:-1], public)

    monkeypatch.setitem(MECHANISMS, "short", Short)
    with pytest.raises(
        PgcError, match=r"short cannot be compiled by JAX for d = 4 .*add-a-mechanism"
    ):
        build(configure(mechanism="short"))
