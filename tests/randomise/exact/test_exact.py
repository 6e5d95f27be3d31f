"""Exact draws have the distribution they state, and take their bits from the operating system alone."""

import math
import secrets
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pgc.randomise.exact import discrete_laplace as exact
from tests.chance import agrees, differs


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(9, 4)])
def test_a_coin_of_e_to_the_minus_gamma(gamma):
    n = 40_000
    heads = sum(exact.bernoulli_exp(gamma) for _ in range(n))
    p = math.exp(-gamma)
    assert agrees(stats.binomtest(heads, n, p).pvalue)
    if gamma:
        assert differs(stats.binomtest(heads, n, p**1.2).pvalue)  # a fifth more would be noticed


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 2), Fraction(40)])
def test_discrete_laplace(scale):
    n = 15_000
    drawn = np.array([exact.discrete_laplace(scale) for _ in range(n)])
    assert agrees(_fits(drawn, float(scale)))
    assert differs(
        _fits(drawn, 1.2 * float(scale))
    )  # a scale that is off by a fifth would be noticed


def _fits(drawn, scale):
    """The p value of a χ² test against P(x) ∝ e^(−|x|/scale)."""
    ratio = math.exp(-1 / scale)
    reach = max(1, int(4 * scale))
    edges = np.unique(np.linspace(-reach, reach, 15).astype(int))
    cdf = np.array([_below(e, ratio) for e in edges])
    expected = np.diff(np.concatenate([[0], cdf, [1]])) * len(drawn)
    seen = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(edges) + 1)
    enough = expected > 5
    seen, expected = (np.append(x[enough], x[~enough].sum()) for x in (seen, expected))
    keep = expected > 0
    return stats.chisquare(seen[keep], expected[keep]).pvalue


def _below(x, ratio):
    """P(X < x)."""
    return ratio ** (1 - x) / (1 + ratio) if x <= 0 else 1 - ratio**x / (1 + ratio)


def test_no_generator_or_seed_stands_in_for_the_operating_system(monkeypatch):
    asked = []

    def below(n):
        asked.append(n)
        return 0

    monkeypatch.setattr(secrets, "randbelow", below)
    assert exact.bernoulli(Fraction(1, 3)) and asked == [3]
    monkeypatch.undo()
    np.random.seed(0)
    first = [exact.discrete_laplace(Fraction(1000)) for _ in range(8)]
    np.random.seed(0)
    assert first != [exact.discrete_laplace(Fraction(1000)) for _ in range(8)]
