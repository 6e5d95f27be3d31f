"""Mechanisms for directions: exact ε-LDP in integers, the stated laws, and that every gradient has a report."""

import itertools
import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from pgc.errors import PgcError
from pgc.randomise.mechanisms.duchi import Duchi
from pgc.randomise.mechanisms.index_code import IndexCode, _share
from pgc.randomise.mechanisms.privunit import PrivUnit
from pgc.randomise.mechanisms.privunitg import PrivUnitG
from pgc.randomise.mechanisms.prs_sign import ProjectedSign
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.mechanisms.sphere import leaning, quantile, standard_normal, uniform_direction
from tests.conftest import more
from tests.randomise.mechanisms.test_error import direction, reports

SPHERE = ["duchi", "index", "privunit", "privunitg"]


def words(rng, *shape):
    return rng.integers(2**32, size=shape, dtype=np.uint32)


def extreme_gradients(dim, rng):
    some = [rng.normal(size=dim) * 10.0**k for k in (-30, -2, 0, 2, 30)]
    return (
        some
        + [-g for g in some]
        + [np.zeros(dim), np.full(dim, np.nan), np.full(dim, np.inf), np.full(dim, 3e38)]
    )


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize("epsilon", [0.05, 8.0, *more(1.0, 40.0)])
def test_one_bit_is_exactly_epsilon_ldp(epsilon, xp, rng):
    q = Duchi(dim=5, epsilon=epsilon)
    public = xp.asarray(words(rng, q.public_words))
    ones = [
        int(q.prepare(xp.asarray(g, dtype=xp.float32), public)[0])
        for g in extreme_gradients(5, rng)
    ]
    worst = max(
        Fraction(max(a, WORD - b), max(1, min(b, WORD - a)))
        for a in (min(ones), max(ones))
        for b in (min(ones), max(ones))
    )
    ratio = max(Fraction(max(ones), min(ones)), Fraction(WORD - min(ones), WORD - max(ones)))
    assert ratio <= Fraction(math.exp(epsilon) * (1 + 1e-12)) and worst >= 1
    assert epsilon > 20 or float(ratio) > math.exp(epsilon) * (1 - 1e-3)
    assert (
        set(ones) <= {q.keep, q.flip, WORD // 2} and ones[-4] == ones[-3] == ones[-2] == WORD // 2
    )


@pytest.mark.parametrize(("epsilon", "size"), [(0.5, 7), (1.0, 16), (3.0, 16), (8.0, 5)])
def test_the_index_is_exactly_epsilon_ldp_by_counting_every_word(epsilon, size, rng):
    """P(j | S) as exact fractions of the 2⁶⁴ pairs of words, for members and others."""
    q = IndexCode(dim=3, epsilon=epsilon, code_size=size)
    k = q.members

    def of(count):  # how many second words choose each place
        edges = [-(-WORD * i // count) for i in range(count + 1)]
        return [b - a for a, b in itertools.pairwise(edges)]

    member = [Fraction(q.inside * n, WORD**2) for n in of(k)]
    other = [Fraction((WORD - q.inside) * n, WORD**2) for n in of(size - k)]
    assert sum(member) + sum(other) == 1
    ratio = max(member) / min(other)
    assert ratio <= Fraction(math.exp(epsilon) * (1 + 1e-12))
    assert float(ratio) > math.exp(epsilon) * (1 - 1e-3)
    assert max(other) / min(member) <= Fraction(math.exp(epsilon))
    for count in (1, k, size - k, 2**16):
        for word in (0, 1, 77_777, 2**31, WORD - 1, int(words(rng, 1)[0])):
            assert int(_share(np.uint32(word), np.uint32(count))) == word * count // WORD


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_the_nearest_set_has_exactly_k_members_for_every_gradient(xp, rng):
    """A set of varying size would leak up to 2ε. Ties (a code of one vector, no direction) go by number."""
    q = IndexCode(dim=3, epsilon=1.0, code_size=20)
    public = xp.asarray(words(rng, q.public_words))
    same = xp.zeros(q.public_words, dtype=xp.uint32)
    for g in extreme_gradients(3, rng):
        for code in (public, same):
            inside = np.asarray(q.prepare(xp.asarray(g, dtype=xp.float32), code))
            assert inside.sum() == q.members
    assert np.asarray(q.prepare(xp.zeros(3, dtype=xp.float32), public))[: q.members].all()


def test_the_index_that_is_drawn_has_the_stated_frequencies(rng):
    q = IndexCode(dim=3, epsilon=2.0, code_size=12)
    public = words(rng, q.public_words)
    inside = q.prepare(np.float32([1.0, 2.0, -1.0]), public)
    drawn = np.asarray([q.draw(inside, w) for w in words(rng, 20_000, 2)])
    share = np.where(inside, q.inside / WORD / q.members, (1 - q.inside / WORD) / (12 - q.members))
    assert stats.chisquare(np.bincount(drawn, minlength=12), 20_000 * share).pvalue > 1e-3
    wrong = share * np.where(inside, 1.2, 1.0)
    assert (
        stats.chisquare(np.bincount(drawn, minlength=12), 20_000 * wrong / wrong.sum()).pvalue
        < 1e-3
    )


@pytest.mark.parametrize("setting", [(3.0, 6, 256), *more((1.0, 4, 16), (8.0, 3, 64))])
def test_the_shortcut_of_the_index_has_the_law_of_the_literal_code(setting, rng):
    epsilon, dim, size = setting
    g, n = direction(dim, rng), 4000
    q = IndexCode(dim=dim, epsilon=epsilon, code_size=size)
    literal, shortcut = reports(q, g, rng, n, literal=True), reports(q, g, rng, n)
    across = rng.normal(size=dim)
    across -= across @ g * g
    for way in (g, across):
        assert stats.ks_2samp(literal @ way, shortcut @ way).pvalue > 1e-3
    assert stats.ks_2samp(literal @ g, 1.2 * (shortcut @ g)).pvalue < 1e-3
    for made in (literal, shortcut):
        np.testing.assert_allclose(np.linalg.norm(made, axis=1), q.size, rtol=1e-4)
        assert abs((made @ g).mean() - 1) < 4 * (made @ g).std() / math.sqrt(n)


@pytest.mark.parametrize(
    "setting", [(2, 6.0), (40, 1.0), *more((2, 1.0), (3, 1.0), (3, 6.0), (40, 6.0))]
)
def test_privunit_draws_from_cap_and_complement_uniformly(setting, rng):
    dim, epsilon = setting
    """⟨V, u⟩ has the density of a uniform direction, times p/q on the cap and (1−p)/(1−q) off it: Kolmogorov–Smirnov."""
    q, g = PrivUnit(dim=dim, epsilon=epsilon), direction(dim, rng)
    along = reports(q, g, rng, 20_000) @ g / q.size
    gamma, share, p = q.side
    half = (dim - 1) / 2
    below = lambda t: stats.beta(half, half).cdf((1 + np.clip(t, -1, 1)) / 2)
    cdf = lambda t: np.where(
        t < gamma, below(t) * (1 - p) / (1 - share), 1 - p + (below(t) - (1 - share)) * p / share
    )
    assert stats.kstest(along, cdf).pvalue > 1e-3
    assert abs(np.mean(along >= gamma) - p) < 4 * math.sqrt(p * (1 - p) / 20_000)
    np.testing.assert_allclose(np.linalg.norm(reports(q, g, rng, 100), axis=1), q.size, rtol=1e-4)


@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_privunitg_is_a_normal_vector_but_for_its_side(epsilon, rng):
    q, g = PrivUnitG(dim=6, epsilon=epsilon), direction(6, rng)
    drawn = reports(q, g, rng, 20_000) / q.size
    gamma, share, p = q.side
    assert p / share / ((1 - p) / (1 - share)) == pytest.approx(math.exp(epsilon))
    cdf = lambda t: np.where(
        t < gamma,
        stats.norm.cdf(t) * (1 - p) / (1 - share),
        1 - p + (stats.norm.cdf(t) - (1 - share)) * p / share,
    )
    assert stats.kstest(drawn @ g, cdf).pvalue > 1e-3
    across = rng.normal(size=6)
    across -= across @ g * g
    assert stats.kstest(drawn @ across / np.linalg.norm(across), stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", [*SPHERE, "prs-sign"])
def test_without_a_direction_a_report_is_like_any_other_and_uniform(name, rng):
    q = make_mechanism(name, dim=4, epsilon=3.0, clip=1.0)
    some = reports(q, direction(4, rng), rng, 500)
    for bad in (np.zeros(4), np.full(4, np.nan), np.asarray([np.inf, 1, 1, 1])):
        made = reports(q, bad, rng, 8000)
        assert np.isfinite(made).all()
        assert np.abs(made.mean(axis=0)).max() < 4.5 * made.std() / math.sqrt(8000)
        if name in ("duchi", "index", "privunit"):
            np.testing.assert_allclose(
                np.linalg.norm(made, axis=1), np.linalg.norm(some, axis=1)[0], rtol=1e-4
            )


@pytest.mark.parametrize("name", [*SPHERE, "prs-sign", "piecewise"])
def test_numpy_and_jax_agree(name, rng):
    q = make_mechanism(name, dim=6, epsilon=2.0, clip=1.0)
    for _ in range(20):
        public, secret, g = (
            words(rng, q.public_words),
            words(rng, q.secret_words),
            rng.normal(size=6).astype(np.float32),
        )
        ours = q.randomize(g, public, secret)
        np.testing.assert_allclose(
            q.randomize(jnp.asarray(g), jnp.asarray(public), jnp.asarray(secret)),
            ours,
            rtol=1e-3,
            atol=1e-3,
        )


def test_helpers(rng):
    normal = np.concatenate([standard_normal(words(rng, 1000), np.float64) for _ in range(20)])
    assert stats.kstest(normal, stats.norm.cdf).pvalue > 1e-3
    u = direction(7, rng)
    v = leaning(np.float64(0.3), u, words(rng, 8))
    assert v @ u == pytest.approx(0.3) and np.linalg.norm(v) == pytest.approx(1)
    some = np.asarray([uniform_direction(words(rng, 4), 3, np.float64)[0] for _ in range(5000)])
    assert (
        stats.kstest(some, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    )  # Archimedes: uniform in three dimensions
    assert quantile(np.asarray([0.25]), 3)[0] == pytest.approx(0.5, abs=1e-3)


def test_parameters_without_a_promise_are_refused():
    for bad in (dict(epsilon=0.0), dict(epsilon=math.inf)):
        with pytest.raises(PgcError, match="epsilon"):
            Duchi(dim=3, **bad)
    with pytest.raises(PgcError, match="code_size"):
        IndexCode(dim=3, epsilon=1.0, code_size=100_000)
    with pytest.raises(PgcError, match="at least 2 dimension"):
        PrivUnit(dim=1, epsilon=1.0)
    assert ProjectedSign.make(dim=9, epsilon=10.0, clip=1.0).report_bytes == 1
