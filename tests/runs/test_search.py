"""The public search: it finds what is good, through noise, and the same for the same seed."""

import numpy as np
import pytest

from pgc.errors import PgcError
from pgc.runs.search import CANDIDATES, search

BEST = np.array([1.0, -2.0, 0.5])
BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 3)))[0]
THETA = np.random.default_rng(1).normal(size=7)


def noisy(thetas, generation):
    """A score that is highest at θ + W·BEST; the noise is as large as a step of 1 matters."""
    x = (thetas - THETA) @ BASIS
    return -np.sum((x - BEST) ** 2, axis=1) + np.random.default_rng(generation).normal(size=len(x))


def test_it_finds_the_best_policy_through_noise():
    x = search(noisy, THETA, BASIS, spread=1.0, generations=60, seed=0)
    assert np.linalg.norm(x - BEST) < 0.5 < np.linalg.norm(BEST)
    again = search(noisy, THETA, BASIS, spread=1.0, generations=60, seed=0)
    np.testing.assert_array_equal(x, again)


def test_all_candidates_of_a_generation_are_scored_together():
    seen = []

    def score(thetas, generation):
        seen.append((len(thetas), generation))
        return np.zeros(len(thetas))

    search(score, THETA, BASIS, spread=1.0, generations=3, seed=0)
    assert seen == [(CANDIDATES, 0), (CANDIDATES, 1), (CANDIDATES, 2)]


def test_one_direction_is_too_few():
    with pytest.raises(PgcError, match="at least two directions"):
        search(noisy, THETA, BASIS[:, :1], spread=1.0, generations=1, seed=0)
