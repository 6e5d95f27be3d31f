"""Projected Random Sign: exact ε-LDP by enumeration, the right frequencies, the right mean."""

import itertools
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from pgc.errors import PgcError
from pgc.randomise.mechanisms.prs import WORD, ProjectedRandomSign, paper_reduced_dim


def words(rng, n):
    return rng.integers(2**32, size=n, dtype=np.uint32)


def test_the_papers_rule_for_the_reduced_dimension():
    assert [paper_reduced_dim(e, 112) for e in (0.1, 1, 2, 5, 10, 1000)] == [1, 1, 1, 2, 4, 112]


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize(
    ("epsilon", "reduced_dim"), [(1.0, 1), (5.0, 2), (0.3, 3), (10.0, 4), (40.0, 1), (1e9, 2)]
)
def test_exactly_epsilon_ldp_by_enumerating_every_output(epsilon, reduced_dim, xp, rng):
    """P(code | g) as exact fractions from the integer thresholds, for every code and pairs of extreme gradients."""
    q = ProjectedRandomSign(dim=6, epsilon=epsilon, clip=0.5, reduced_dim=reduced_dim)
    public = xp.asarray(words(rng, q.public_words))
    gradients = [rng.normal(size=6) * 10.0**k for k in (-2, -1, 0, 1, 2, 30)]
    gradients += [-g for g in gradients] + [np.zeros(6), np.full(6, np.nan), np.full(6, 3e38)]
    thresholds = [
        np.asarray(q.prepare(xp.asarray(g, dtype=xp.float32), public)).tolist() for g in gradients
    ]
    assert np.ptp(thresholds) > 0

    def probability(row, code):
        p = Fraction(1)
        for t, bit in zip(row, code, strict=True):
            p *= Fraction(t, WORD) if bit else Fraction(WORD - t, WORD)
        return p

    codes = list(itertools.product([True, False], repeat=reduced_dim))
    for row in thresholds:
        assert sum(probability(row, code) for code in codes) == 1
    worst = max(
        probability(a, code) / probability(b, code)
        for a in thresholds
        for b in thresholds
        for code in codes
    )
    assert worst <= Fraction(np.exp(min(epsilon, 700)) * (1 + 1e-12))
    assert epsilon > 20 or float(worst) > np.exp(epsilon) * (
        1 - 1e-3
    )  # and it is used up, not wasted


def test_the_printed_epsilon_over_k_would_not_be_ldp():
    """With ε/k, k ≠ d̂, in the first place of eq. (bitflip) the probabilities leave the interval that ε-LDP allows."""
    epsilon, d_hat, k = 5.0, 2, 1
    odds = lambda p: p / (1 - p)
    low = 1 / (np.exp(epsilon / k) + 1)
    high = low + (np.exp(epsilon / d_hat) - 1) / (np.exp(epsilon / d_hat) + 1)
    assert max(high / low, odds(high)) > np.exp(epsilon / d_hat)


@pytest.mark.parametrize("u", [-2.0, -1.0, -0.3, 0.0, 0.5, 1.0, 7.0])
def test_bits_have_the_printed_probability_and_a_fifth_more_or_less_is_noticed(u, rng):
    epsilon, n = 2.0, 40_000
    q = ProjectedRandomSign(dim=1, epsilon=epsilon, clip=1.0, reduced_dim=1)
    public = np.array([2**32 - 1], np.uint32)  # M = +√3
    threshold = q.prepare(np.array([u / 3**0.5]), public)
    share = np.mean(q.draw(threshold[0], words(rng, n)))

    def expected(e):
        return 1 / (np.exp(e) + 1) + (np.clip(u, -1, 1) + 1) / 2 * (np.exp(e) - 1) / (np.exp(e) + 1)

    tolerance = 4 * 0.5 / n**0.5
    assert abs(share - expected(epsilon)) < tolerance
    if u != 0:
        for wrong in (epsilon * 1.2, epsilon / 1.2):
            assert abs(share - expected(wrong)) > tolerance or abs(u) < 0.5


def test_the_projection_has_the_papers_frequencies(rng):
    q = ProjectedRandomSign(dim=112, epsilon=1.0, clip=1.0, reduced_dim=100)
    m = q.projection(words(rng, q.public_words), np.float64)
    assert m.shape == (100, 112)
    values, counts = np.unique(np.round(m / 3**0.5), return_counts=True)
    assert values.tolist() == [-1, 0, 1]
    np.testing.assert_allclose(counts / counts.sum(), [1 / 6, 2 / 3, 1 / 6], atol=0.02)
    assert abs(np.mean(m**2) - 1) < 0.05


def test_decoding_is_the_transpose_times_plus_or_minus_c(rng):
    q = ProjectedRandomSign(dim=5, epsilon=1.0, clip=0.25, reduced_dim=3)
    public = words(rng, q.public_words)
    m = q.projection(public, np.float64)
    out = q.decode(np.array([True, False, True]), public)
    np.testing.assert_allclose(out, m.T @ [0.25, -0.25, 0.25], rtol=1e-6)


def test_the_estimate_is_scaled_by_d_hat_tanh(rng):
    """E[Mᵀũ] = d̂·tanh(ε/2d̂)·g where nothing is clipped: ε also changes the learning rate."""
    q = ProjectedRandomSign(dim=4, epsilon=5.0, clip=4.0, reduced_dim=2)
    g, n = np.array([0.4, -0.2, 0.1, 0.3]), 15_000
    out = np.array([q.randomize(g, words(rng, q.public_words), words(rng, 2)) for _ in range(n)])
    error = 5 * out.std(axis=0) / n**0.5
    np.testing.assert_array_less(np.abs(out.mean(axis=0) - 2 * np.tanh(5 / 4) * g), error)
    assert np.any(np.abs(out.mean(axis=0) - g) > error)


def test_numpy_and_jax_agree_bit_for_bit_on_the_code(rng):
    q = ProjectedRandomSign(dim=20, epsilon=3.0, clip=1.0, reduced_dim=4)
    for _ in range(50):
        g, public, secret = (
            rng.normal(size=20).astype(np.float32),
            words(rng, q.public_words),
            words(rng, 4),
        )
        ours = q.draw(q.prepare(g, public), secret)
        theirs = q.draw(q.prepare(jnp.asarray(g), jnp.asarray(public)), jnp.asarray(secret))
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("reduced_dim", [0, 7, -1])
def test_a_reduced_dimension_beyond_d_is_refused(reduced_dim):
    with pytest.raises(PgcError, match="between 1 and d = 6"):
        ProjectedRandomSign(dim=6, epsilon=1.0, clip=1.0, reduced_dim=reduced_dim)
