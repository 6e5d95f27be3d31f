from fractions import Fraction

import numpy as np
import pytest

from pgc.errors import PgcError
from pgc.randomise.mechanisms.score_bit import WORD, ScoreBit


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 40.0, 1e7])
def test_exactly_epsilon_ldp(epsilon):
    keep = ScoreBit(epsilon=epsilon).keep_threshold
    assert Fraction(keep, WORD - keep) <= Fraction(np.exp(min(epsilon, 700)) * (1 + 1e-12))
    assert epsilon > 20 or keep / (WORD - keep) > np.exp(epsilon) * (1 - 1e-6)


@pytest.mark.parametrize("success", [True, False])
def test_the_truth_is_kept_as_often_as_promised_and_a_fifth_is_noticed(success, rng):
    n, bit = 40_000, ScoreBit(epsilon=1.0)
    words = rng.integers(2**32, size=n, dtype=np.uint32)
    kept = np.mean(bit.draw(np.full(n, success), words) == success)
    tolerance = 4 * 0.5 / n**0.5
    assert abs(kept - np.e / (np.e + 1)) < tolerance
    for wrong in (1.2, 1 / 1.2):
        assert abs(kept - np.exp(wrong) / (np.exp(wrong) + 1)) > tolerance


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_debiased_rate_is_right_and_within_its_stated_deviation(rate, rng):
    n, bit = 500, ScoreBit(epsilon=1.0)
    estimates = []
    for _ in range(400):
        bits = bit.draw(rng.random(n) < rate, rng.integers(2**32, size=n, dtype=np.uint32))
        estimates.append(bit.success_rate(bits.sum(), n))
    assert abs(np.mean(estimates) - rate) < 5 * bit.deviation(n) / 20
    assert 0.8 * bit.deviation(n) < np.std(estimates) < 1.1 * bit.deviation(n)
    assert bit.deviation(470) == pytest.approx(0.05, abs=0.001)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_only_a_positive_finite_epsilon_is_a_promise(epsilon):
    with pytest.raises(PgcError, match="score_epsilon"):
        ScoreBit(epsilon=epsilon)
