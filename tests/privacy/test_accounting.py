"""Composition and shuffling, against published values and an independent count."""

import itertools
import math

import pytest

from pgc.errors import PgcError
from pgc.privacy.accounting.composition import basic, largest_epsilon, optimal, pld
from pgc.privacy.accounting.shuffling import shuffled, shuffled_delta


def delta_by_counting(parts, central):
    """Kairouz, Oh and Viswanath (2015), equation 7: over every outcome of every part."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(parts)):
        p, q = (
            math.prod(1 / (1 + math.exp(-way * s * e)) for s, e in zip(signs, parts, strict=True))
            for way in (1, -1)
        )
        total += max(0.0, p - math.exp(central) * q)
    return total


@pytest.mark.parametrize(("epsilon", "score", "t"), [(0.5, 0.0, 6), (0.3, 0.1, 4), (1.0, 0.5, 3)])
def test_optimal_composition_is_that_of_counting(epsilon, score, t):
    parts = [epsilon] * t + ([score] * t if score else [])
    for delta in (1e-2, 1e-4):
        central = optimal(epsilon, score, t, delta)
        assert delta_by_counting(parts, central) <= delta * (1 + 1e-9)
        assert delta_by_counting(parts, central - 1e-6) > delta
        assert central < basic(epsilon, score, t)


@pytest.mark.parametrize(
    ("t", "epsilon"), [(10, 0.100), (50, 0.0344), (100, 0.0240), (1000, 0.0075)]
)
def test_the_largest_epsilon_for_a_total_of_one(t, epsilon):
    """Values that were computed independently, at δ = 10⁻⁶."""
    found = largest_epsilon(1.0, 0.0, t, 1e-6)
    assert found == pytest.approx(epsilon, rel=0.005) and optimal(found, 0.0, t, 1e-6) <= 1.0
    assert optimal(found + 2e-9, 0.0, t, 1e-6) > 1.0
    assert (
        1.0 - 1e-6 <= pld(found, 0.0, t, 1e-6) <= 1.03
    )  # dp-accounting is on the safe side, and close


def test_basic_composition_in_nano_epsilon():
    third = largest_epsilon(1.0, 0.1, 3, 0.0)
    assert third == pytest.approx(0.2333333333, abs=1e-9) and basic(third, 0.1, 3) <= 1.0
    with pytest.raises(PgcError, match="noisy booleans cost 1 already"):
        largest_epsilon(1.0, 0.1, 10, 0.0)


def test_the_noisy_boolean_adds():
    assert basic(0.5, 0.25, 4) == 3.0
    assert optimal(0.5, 0.0, 10, 1e-6) < optimal(0.5, 0.25, 10, 1e-6) < optimal(0.75, 0.0, 10, 1e-6)
    assert pld(0.5, 0.25, 10, 1e-6) == pytest.approx(optimal(0.5, 0.25, 10, 1e-6), rel=0.03)


@pytest.mark.parametrize(
    ("n", "central"), [(90_000, 0.0132), (1_000, 0.149), (100, 0.52), (50, 0.76)]
)
def test_shuffling_as_it_was_computed_independently(n, central):
    assert shuffled(1.0, n, 1e-6) == pytest.approx(central, rel=0.01)


def test_shuffling_is_below_the_published_bound_and_above_nothing():
    """Feldman, McMillan and Talwar (2021), Theorem 3.1: ln(1 + (e^ε−1)/(e^ε+1)·(8·√(e^ε·ln(4/δ)/n) + 8·e^ε/n))."""
    for epsilon, n, delta in ((0.5, 10_000, 1e-6), (1.0, 50_000, 1e-8), (2.0, 100_000, 1e-6)):
        e = math.exp(epsilon)
        theirs = math.log(
            1 + (e - 1) / (e + 1) * (8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n)
        )
        assert 0 < shuffled(epsilon, n, delta) < theirs
    assert shuffled(1.0, 1, 1e-9) == pytest.approx(1.0, abs=1e-6)  # alone, one hides among nobody


def test_the_sum_over_shuffled_reports_is_that_of_counting():
    """Every outcome of A, C and Δ, for five reports."""
    epsilon, n = 1.0, 5
    hides, truth = 2 / (math.e + 1), math.e / (math.e + 1)
    for central in (0.1, 0.4, 0.8):
        p, q = {}, {}
        for c in range(n):
            for a in range(c + 1):
                w = (
                    math.comb(n - 1, c)
                    * hides**c
                    * (1 - hides) ** (n - 1 - c)
                    * math.comb(c, a)
                    / 2**c
                )
                for extra, mine in ((1, truth), (0, 1 - truth)):
                    at = (a + extra, c - a + 1 - extra)
                    p[at] = p.get(at, 0) + w * mine
                    q[at] = q.get(at, 0) + w * (1 - mine)
        counted = sum(max(0.0, p[at] - math.exp(central) * q[at]) for at in p)
        assert shuffled_delta(epsilon, n, central) == pytest.approx(counted, rel=1e-9, abs=1e-13)


def test_refusals():
    with pytest.raises(PgcError, match="at least one report"):
        shuffled(1.0, 0, 1e-6)
    with pytest.raises(PgcError, match="needs a delta"):
        shuffled(1.0, 10, 0.0)
    with pytest.raises(PgcError, match="too many terms"):
        optimal(0.1, 0.1, 10_000, 1e-6)
