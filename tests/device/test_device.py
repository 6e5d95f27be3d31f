"""`Device`: its own limits whatever an offer says, the same bytes for the same offer, and the base install alone."""

import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from scipy import stats

import pgc
from pgc.device import device as module
from pgc.device import slots
from pgc.device.device import Device, Refusal
from pgc.errors import PgcError
from pgc.randomise.mechanisms.laplace import SECONDS_AT_START, SECONDS_EACH
from pgc.wire import Report
from tests.chance import agrees, differs
from tests.waiting import LIMIT
from tests.wire.samples import KINDS, make_offer


@pytest.fixture
def device(tmp_path):
    return Device.create(tmp_path / "ledger.db", 10.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_offer_gets_the_same_bytes(device, kind):
    offer = make_offer(kind, score_epsilon=0.25)
    first = device.release(offer, np.arange(6.0), success=True)
    assert isinstance(first, bytes) and Report.decode(first, offer).score_bit is not None
    assert device.release(offer.encode(), -np.arange(6.0), success=False) == first
    assert device.balance.spent == offer.query.cost == 1_250_000_000 and device.balance.reports == 1


def test_it_survives_the_process(device, tmp_path):
    offer = make_offer("laplace")
    first = device.release(offer, np.ones(6))
    assert Device.open(tmp_path / "ledger.db").release(offer, np.ones(6)) == first


def refused(answer, reason):
    assert isinstance(answer, Refusal) and reason in answer.reason, answer
    return True


def test_its_own_limits_whatever_the_offer_says(tmp_path):
    device = Device.create(
        tmp_path / "l.db", 2.0, accepts=("duchi", "laplace"), most_epsilon=1.5, most_episodes=5
    )
    g = np.ones(6)
    assert refused(device.release(make_offer("index"), g), "does not accept index")
    assert refused(device.release(make_offer("duchi", epsilon=1.6), g), "at most ε = 1.5 at once")
    assert refused(device.release(make_offer("duchi", episodes=6), g), "plays at most 5")
    assert refused(
        device.release(make_offer("duchi", expires_at=int(time.time()) - 1), g), "has expired"
    )
    assert refused(device.release(b"nonsense", g), "offer: ends after 8 bytes")
    assert device.balance.spent == 0
    assert isinstance(
        device.release(make_offer("duchi", offer_id=1, expires_at=int(time.time()) + 60), g), bytes
    )
    assert refused(
        device.release(make_offer("duchi", offer_id=1, epsilon=0.5), g),
        "another offer had the number",
    )
    assert refused(
        device.release(make_offer("duchi", offer_id=2, epsilon=1.1), g),
        "ε = 1.1 and ε = 1 of ε = 2 is left",
    )
    assert isinstance(device.release(make_offer("duchi", offer_id=2), g), bytes)
    assert refused(device.release(make_offer("duchi", offer_id=3), g), "ε = 0 of ε = 2 is left")
    with pytest.raises(PgcError, match="not privunit"):
        Device.open(tmp_path / "l.db", accepts=("privunit",))


def test_any_array_like(device):
    import jax.numpy as jnp

    values = [1.0, -2.0, 3.0, 0.0, 0.5, 1.0]
    for n, gradient in enumerate(
        (
            values,
            tuple(values),
            np.array(values, np.float16),
            np.array(values).reshape(2, 3),
            jnp.array(values),
            [np.nan] * 6,
        )
    ):
        assert isinstance(
            device.release(make_offer("duchi", offer_id=n, epsilon=0.1), gradient), bytes
        )
    for n, nothing in enumerate(
        (values[:5], None, float("nan"), [], "text")
    ):  # a training step that failed: answered, and logged
        assert isinstance(
            device.release(make_offer("duchi", offer_id=100 + n, epsilon=0.1), nothing), bytes
        )
    assert device.balance.reports == 11


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_raises_whatever_the_application_set(tmp_path, kind):
    """An exception would be a silence, free of charge, that says what the gradient was."""
    device = Device.create(tmp_path / "l.db", 100.0)
    offers = iter(
        [make_offer(kind, offer_id=n, columns=4 * (n % 2), epsilon=0.1) for n in range(12)]
    )
    odd = (
        [1e-310, 1e-50, 1e-40, 1e300, -1e308, 0.0],
        [10**400, 1, 1, 1, 1, 1],
        [np.inf, -np.inf, np.nan, 0, 0, 0],
        [None] * 6,
    )
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for gradient in (*odd, np.full(6, np.finfo(np.longdouble).max), [[1, 2], [3]]):
            for _ in range(2):
                assert isinstance(device.release(next(offers), gradient), bytes)
    assert device.balance.reports == 12


def test_an_offer_that_would_fill_the_disk_is_refused(tmp_path):
    device = Device.create(tmp_path / "l.db", 1.0, most_bytes=100)
    assert refused(
        device.release(make_offer("laplace", dim=50), np.ones(50)),
        "a report of 213 bytes; this device gives at most 100",
    )


class Clock:
    """Stands in for `time` in `device.py`: it passes while somebody sleeps or works, and no faster on an idle machine."""

    def __init__(self):
        self.now = 1000.0
        self.time = self.perf_counter = lambda: self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(slots, "time", clock)
    return clock


def taking(clock, work, seconds):
    """The same work; it takes as many seconds as come next."""

    def slow(*given):
        clock.now += next(seconds)
        return work(*given)

    return slow


def test_laplace_takes_a_fixed_time(tmp_path, monkeypatch, clock):
    """Its sampler takes longer for larger noise; drawing is padded to whole slots, so that a longer draw does not show."""
    slot = SECONDS_AT_START + SECONDS_EACH * 40
    device, taken = Device.create(tmp_path / "l.db", 100.0), []
    monkeypatch.setattr(
        module,
        "draw_report",
        taking(clock, module.draw_report, iter([0, 0.1 * slot, 0, 0.9 * slot, 0, 1.3 * slot])),
    )
    for n in range(3):
        begun = clock.now
        device.release(make_offer("laplace", dim=40, offer_id=n), np.ones(40))
        taken.append((clock.now - begun) / slot)
    assert taken == pytest.approx([1, 1, 2], abs=1e-6)


@pytest.mark.extra
def test_pytorch_tensors(device):
    torch = pytest.importorskip("torch")
    for n, dtype in enumerate((torch.float32, torch.bfloat16, torch.float64)):
        gradient = torch.ones(6, dtype=dtype, requires_grad=True)
        assert isinstance(
            device.release(make_offer("duchi", offer_id=n, epsilon=0.1), gradient), bytes
        )


def test_a_gradient_is_projected_with_the_offers_basis(tmp_path, bits_of_a_seed):
    """Released reports, decoded, point where W Wᵀ g points."""
    device = Device.create(tmp_path / "l.db", 1000.0)
    g = np.array([3.0, -1.0, 0.5, 2.0, 0.0, 1.0])
    total = np.zeros(6)
    for n in range(300):
        offer = make_offer("index", columns=3, epsilon=3.0, offer_id=n)
        total += Report.decode(device.release(offer, g), offer).vector(offer)
    expected = offer.basis @ offer.basis.T @ g
    assert np.dot(total, expected) / np.linalg.norm(total) / np.linalg.norm(expected) > 0.97


def test_the_noisy_boolean_is_kept_as_often_as_it_says(tmp_path):
    devices = [Device.create(tmp_path / f"{i}.db", 1000.0) for i in range(2)]
    kept, n = 0, 1500
    for i in range(n):
        offer = make_offer("duchi", epsilon=0.01, score_epsilon=1.0, offer_id=i)
        kept += Report.decode(
            devices[i % 2].release(offer, np.ones(6), success=True), offer
        ).score_bit
    p = np.e / (1 + np.e)
    assert agrees(stats.binomtest(kept, n, p).pvalue) and differs(
        stats.binomtest(kept, n, p * 1.2).pvalue
    )


def test_an_answer_takes_whole_slots(tmp_path, monkeypatch, clock):
    """Whatever it is, and however long the work took: the same offer again, another mechanism, a refusal."""
    device = Device.create(tmp_path / "l.db", 10.0, slot_seconds=0.2)
    monkeypatch.setattr(
        module, "draw_report", taking(clock, module.draw_report, iter([0, 0.01, 0, 0.35]))
    )
    for whole, offer in (
        (1, make_offer("duchi")), (1, make_offer("duchi")), (2, make_offer("index", offer_id=2)), (1, b"nonsense"),
    ):  # fmt: skip
        begun = clock.now
        device.release(offer, np.ones(6))
        assert clock.now - begun == pytest.approx(0.2 * whole)
    for wrong in (-1.0, np.inf, np.nan):
        with pytest.raises(PgcError, match="slot_seconds"):
            Device.open(tmp_path / "l.db", slot_seconds=wrong)


def test_without_a_world_it_cannot_play(device):
    with pytest.raises(PgcError, match="no world to play in"):
        device.answer(make_offer("duchi"))


BASE_INSTALL = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "pgc") and not top.startswith("_"):
            raise ModuleNotFoundError(f"{top} is not part of the base install", name=top)

sys.meta_path.insert(0, Missing())
import numpy as np
from pgc import Device, Offer, Report, Refusal
from pgc.wire import Query
offers = [Offer.decode(bytes.fromhex(line)) for line in sys.stdin.read().split()]
device = Device.create(sys.argv[1], 100.0)
for offer in offers:
    report = device.release(offer, np.ones(len(offer.theta)), success=True)
    assert isinstance(report, bytes) and report == device.release(offer, np.zeros(len(offer.theta)), success=False)
    Report.decode(report, offer)
from pgc.device.play import NumpyPlayer
assert "jax" not in sys.modules and "scipy" not in sys.modules
print(len(offers))
"""


def test_the_base_install_is_enough(tmp_path):
    """NumPy and the standard library: any other import fails."""
    offers = [
        make_offer(kind, score_epsilon=0.1, offer_id=n).encode().hex()
        for n, kind in enumerate(KINDS)
    ]
    made = subprocess.run(
        [sys.executable, "-c", BASE_INSTALL, tmp_path / "l.db"],
        input="\n".join(offers),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert made.stdout.strip() == str(len(KINDS)), made.stderr


def test_names_of_a_device_do_not_need_the_training_stack():
    assert pgc.Device is Device and pgc.Refusal is Refusal and pgc.Report is Report
