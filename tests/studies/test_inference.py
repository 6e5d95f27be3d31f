"""Intervals and tests: known values, coverage, and what happens at infinity."""

from math import comb

import numpy as np
import pytest

from pgc.runs import metrics
from pgc.studies import inference

INF = np.inf


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (1, 2, 0.0945, 0.9055)],
)
def test_wilsons_interval_has_its_published_values(successes, trials, low, high):
    assert inference.wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)


def test_fisher_is_the_sum_of_the_tail_of_the_hypergeometric():
    """16 of 20 against 3 of 20: one-sided p = Σ_{k ≥ 16} C(20,k)·C(20,19−k)/C(40,19)."""
    tail = sum(comb(20, k) * comb(20, 19 - k) for k in range(16, 20)) / comb(40, 19)
    assert inference.fisher(16, 20, 3, 20, "greater") == pytest.approx(tail)
    assert inference.fisher(3, 20, 16, 20, "greater") > 0.99
    assert inference.fisher(17, 20, 16, 20) == pytest.approx(1.0)


def draws(rng, size):
    """First success times of which a third never come."""
    return np.where(rng.random(size) < 1 / 3, INF, np.ceil(rng.exponential(5000, size=size)))


def test_the_bootstrap_interval_of_a_median_covers_the_truth_nineteen_times_in_twenty(rng):
    """The true median of `draws`: P(finite and ≤ m) = ½ → m = −5000·ln(1 − ¾). 200 samples of 60: a share within .90 to .99."""
    truth = -5000 * np.log(0.25)
    intervals = [inference.bootstrap(metrics.median, draws(rng, 60)) for _ in range(200)]
    covered = np.mean([low <= truth <= high for low, high in intervals])
    assert 0.90 <= covered <= 0.99
    narrower = np.mean([low <= truth * 1.6 <= high for low, high in intervals])
    assert narrower < 0.75  # it can fail


def test_a_prediction_covers_the_median_of_twenty_new_trials(rng):
    hits = []
    for _ in range(300):
        low, high = inference.prediction(metrics.median, 20, draws(rng, 40))
        hits.append(low <= metrics.median(draws(rng, 20)) <= high)
    assert 0.91 <= np.mean(hits) <= 0.99


def test_infinite_times_stay_infinite():
    never, mostly = np.full(20, INF), np.array([5.0] * 4 + [INF] * 16)
    assert inference.bootstrap(metrics.median, never) == (INF, INF)
    assert metrics.median(mostly) == INF
    low, high = inference.bootstrap(inference.auc_at(100), mostly)
    assert 0 < low < 0.96 * 0.2 < high < 0.5
    assert all(np.isnan(inference.bootstrap(inference.relative_auc_at(100), mostly, never)))


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_median_and_area_along_an_axis_are_those_of_the_metrics(size, rng):
    fsts = draws(rng, (30, size))
    middle = np.sort(fsts)[:, (size - 1) // 2 : size // 2 + 1]  # one or two, of which one may be ∞
    np.testing.assert_array_equal(metrics.median(fsts), middle.mean(axis=1))
    np.testing.assert_allclose(
        inference.auc_at(9000)(fsts), [metrics.auc(row, 9000) for row in fsts]
    )
    base = np.full((30, size), 100.0)
    np.testing.assert_allclose(
        inference.relative_auc_at(9000)(fsts, base),
        [metrics.relative_auc(a, b, 9000) for a, b in zip(fsts, base, strict=True)],
    )


def test_who_is_smaller_and_who_falls(rng):
    early, late = draws(rng, 100), draws(rng, 100) * 3
    assert inference.smaller(early, late) < 0.01 < 0.9 < inference.smaller(late, early)
    assert inference.smaller(np.full(9, INF), np.full(9, INF)) == 1.0
    tau, p = inference.falling([late, early, early / 3])
    assert tau < 0 and p < 0.01
    assert inference.falling([early / 3, early, late])[1] > 0.9
    assert inference.falling([np.full(9, INF)] * 2) == (0.0, 1.0)


def test_paired_trials_are_compared_trial_by_trial(rng):
    """Ten trials that differ much between themselves and by 1 in each pair: all ten differences positive, p = 2⁻¹⁰."""
    a = rng.normal(size=10) * 100
    assert inference.paired(a + 1, a) == pytest.approx(2**-10, abs=1e-3)
    assert inference.paired(a, a + 1) == 1.0 and inference.paired(a, a) == 1.0
    p = [inference.paired(*rng.normal(size=(2, 12))) for _ in range(400)]
    assert np.mean(np.array(p) < 0.05) < 0.05 + 4 * (0.05 * 0.95 / 400) ** 0.5


def test_under_no_difference_p_is_below_one_in_twenty_about_once_in_twenty(rng):
    """1,000 tests of equal samples: fewer than .078 of them below .05 (four standard deviations)."""
    assert (
        np.mean([inference.smaller(draws(rng, 20), draws(rng, 20)) < 0.05 for _ in range(1000)])
        < 0.078
    )
    assert (
        np.mean(
            [inference.falling([draws(rng, 10) for _ in range(4)])[1] < 0.05 for _ in range(1000)]
        )
        < 0.078
    )
