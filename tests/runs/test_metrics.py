"""The paper's metrics on small sequences worked by hand."""

import numpy as np
import pytest

from pgc.runs import metrics

INF = float("inf")


def test_mu_n_looks_forward():
    assert metrics.average_scores(np.array([1, 2, 3, 4]), window=2).tolist() == [1.5, 2.5, 3.5]
    assert len(metrics.average_scores(np.array([1.0]), window=2)) == 0


def test_fst_is_the_first_n_whose_next_m_scores_average_theta():
    scores = np.array([0, 10, 10, 0, 10, 10])
    assert metrics.first_success_time(scores, 10, window=2) == 2
    assert metrics.first_success_time(scores, 5, window=2) == 1
    assert metrics.first_success_time(scores, 11, window=2) == INF
    ten = np.concatenate([np.zeros(7), np.full(10, 195.0)])
    assert metrics.first_success_time(ten, 195.0) == 8
    assert metrics.first_success_time(ten[:-1], 195.0) == INF  # nine are not ten


def test_success_ratio():
    fsts = np.array([2, 4, INF, 4])
    assert metrics.success_ratio(fsts, np.array([1, 2, 3, 4, 9])).tolist() == [
        0,
        0.25,
        0.25,
        0.75,
        0.75,
    ]


def test_auc_is_the_mean_of_the_success_ratio():
    fsts, n = np.array([2, 4, INF, 4, 1]), 7
    assert metrics.auc(fsts, n) == pytest.approx(
        metrics.success_ratio(fsts, np.arange(1, n + 1)).mean()
    )
    assert metrics.auc(np.array([1.0]), 7) == 1.0
    assert metrics.auc(np.array([INF]), 7) == 0.0


def test_relative_auc():
    assert metrics.relative_auc(np.array([5.0]), np.array([1.0]), 8) == pytest.approx(0.5)
    assert np.isnan(metrics.relative_auc(np.array([5.0]), np.array([INF]), 8))


def test_median_with_infinities():
    assert metrics.median(np.array([3, 1, 2])) == 2
    assert metrics.median(np.array([1, 2, INF, INF])) == INF
    assert metrics.median(np.array([1, INF, INF, INF])) == INF
    assert metrics.median(np.array([1, 2, 4, INF])) == 3


@pytest.mark.parametrize("piece", [1, 3, 10, 64])
def test_piece_by_piece_gives_the_same_fst(piece, rng):
    scores = rng.choice([0.0, 200.0], p=[0.12, 0.88], size=(5, 200))
    scores[3] = 0
    tracker = metrics.SuccessTracker(5, 195.0)
    for first in range(0, 200, piece):
        for trial in range(5):
            tracker.add(trial, scores[trial, first : first + piece])
        again = metrics.SuccessTracker(5, 195.0)
        again.load(tracker.save())
        tracker = again
    assert tracker.fst.tolist() == [metrics.first_success_time(row, 195.0) for row in scores]
    assert np.isfinite(tracker.fst).any() and np.isinf(tracker.fst[3])


@pytest.mark.parametrize("submissions", [10, 30, 700])
def test_sampled_curves_are_mu_n_however_the_scores_arrive(submissions, rng):
    scores = rng.integers(8, 200, size=(3, submissions)).astype(np.float32)
    sampler = metrics.CurveSampler(3, submissions, 50)
    trial, n = (a.ravel() for a in np.indices(scores.shape))
    for piece in np.array_split(rng.permutation(scores.size), 7):
        sampler.add(trial[piece], n[piece] + 1, scores[trial[piece], n[piece]])
    whole = np.array([metrics.average_scores(row) for row in scores])
    assert (
        sampler.n[0] == 1
        and sampler.n[-1] == submissions - 9
        and len(sampler.n) == min(50, submissions - 9)
    )
    np.testing.assert_allclose(sampler.curve, whole[:, sampler.n - 1], rtol=1e-6)


def test_a_curve_has_no_value_where_a_trial_has_not_come():
    sampler = metrics.CurveSampler(1, 100, 91)
    sampler.add(np.zeros(15, int), np.arange(1, 16), np.full(15, 7.0))
    assert sampler.curve[0, :6].tolist() == [7.0] * 6 and np.isnan(sampler.curve[0, 6:]).all()
