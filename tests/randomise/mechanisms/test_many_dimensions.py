"""A code of which no more than one vector is made: the products are those of its vectors, S has k members, and it is unbiased."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from pgc.randomise.mechanisms import hadamard_code, index_code
from pgc.randomise.mechanisms.index_code import IndexCode
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.release import decode, release
from pgc.wire import Offer, Query, Report
from tests.conftest import more


@pytest.fixture
def never_dense(monkeypatch):
    """The code of many dimensions, in few."""
    monkeypatch.setattr(index_code, "LARGEST_DENSE", 0)


def words(rng, n):
    return rng.integers(2**32, size=n, dtype=np.uint32)


@pytest.mark.parametrize("dim", [1, 2, 31, 32, 33, 100])
def test_products_are_those_of_the_vectors(rng, dim):
    public, u = words(rng, hadamard_code.words(dim, 16)), rng.normal(size=dim)
    z = np.stack([hadamard_code.vector(np.asarray(j), public, dim, 16) for j in range(16)])
    n = hadamard_code.size(dim)
    np.testing.assert_allclose(
        hadamard_code.products(u, public, dim, 16), z @ u, rtol=1e-3, atol=1e-3 * n
    )
    jax_made = hadamard_code.products(jnp.asarray(u, jnp.float32), jnp.asarray(public), dim, 16)
    np.testing.assert_allclose(jax_made, z @ u, rtol=1e-3, atol=1e-3 * n)


def test_the_transform_is_hadamards(rng):
    x, n = rng.normal(size=64), 64
    h = np.array([[(-1) ** bin(i & j).count("1") for j in range(n)] for i in range(n)])
    np.testing.assert_allclose(hadamard_code.transform(x), h @ x, atol=1e-9)


def test_exactly_k_are_near_for_every_gradient(rng, never_dense):
    """What ε-LDP needs of a code: nothing else."""
    q = IndexCode(dim=33, epsilon=1.0, clip=1.0, code_size=256)
    assert not q.dense
    public = words(rng, q.public_words)
    ends = (
        np.zeros(33),
        np.full(33, np.nan),
        np.eye(33)[0] * 1e30,
        np.full(33, np.inf),
        np.eye(33)[5] * 1e-30,
    )
    for g in (rng.normal(size=33), *ends):
        assert int(q.prepare(g, public).sum()) == q.members
    silly = np.zeros_like(public)  # a hostile code, all of whose vectors are one: ties by number
    assert int(q.prepare(rng.normal(size=33), silly).sum()) == q.members


@pytest.mark.parametrize("shape", ["one coordinate", *more("spread", "a few coordinates")])
def test_reports_are_unbiased_and_as_good_as_stated(rng, never_dense, shape):
    dim, n = 120, 4000
    few = np.r_[rng.normal(size=4), np.zeros(dim - 4)]
    u = {
        "spread": rng.normal(size=dim),
        "one coordinate": np.eye(dim)[7],
        "a few coordinates": few,
    }[shape]
    u = u / np.linalg.norm(u)
    q = make_mechanism("index", dim=dim, epsilon=2.0, clip=1.0)
    made = np.array([q.randomize(u, words(rng, q.public_words), words(rng, 2)) for _ in range(n)])
    along = made @ u
    assert abs(along.mean() - 1) < 4 * along.std() / math.sqrt(n)
    assert np.sum((made.mean(axis=0) - u) ** 2) < 1.5 * q.error() / n
    np.testing.assert_allclose(np.mean(np.sum((made - u) ** 2, axis=1)), q.error(), rtol=0.1)


@pytest.mark.parametrize("name", ["prs", "index", *more("duchi", "prs-sign")])
def test_a_million_dimensions(rng, name, bits_of_a_seed):
    """One report: under 20 bytes, from a few megabytes of public words; and it points the right way. (Its time: `pgc bench`.)"""
    dim, epsilon = 10**6, 4.0
    g = rng.normal(size=dim)
    offer = Offer(
        offer_id=7, policy_version=0, theta=np.zeros(dim, np.float32),
        query=Query.of(make_mechanism(name, dim=dim, epsilon=epsilon, clip=1e3, lift=False)),
    )  # fmt: skip
    ready = offer.query.mechanism
    assert 4 * ready.public_words < 2**24
    data = Report(offer_id=7, policy_version=0, code=release(ready, g, offer.public_seed)).encode(
        offer
    )
    vector = Report.decode(data, offer).vector(offer)
    assert len(data) < 20 and vector.shape == (dim,)
    told = [decode(ready, release(ready, g, bytes([i])), bytes([i])) @ g for i in range(20)]
    assert np.mean(told) > 0


def test_small_codes_are_what_they_were():
    """Vectors of offers that devices know already: the same public bytes, up to 16 MiB of them."""
    assert IndexCode(dim=2**16, epsilon=1.0, clip=1.0, code_size=256).dense
    assert not IndexCode(dim=2**16 + 1, epsilon=1.0, clip=1.0, code_size=256).dense
