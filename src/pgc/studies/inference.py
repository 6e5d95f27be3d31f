"""Intervals and tests for first success times, which may be infinite.

Resampling is seeded, so the same trials give the same interval.

Cells of one experiment share their seeds: trial i starts from the same θ_0 in every cell and draws
the same random words for its noise. Counts that are summed over cells are therefore compared trial
by trial (`paired`). Tests of one cell against another treat the two as independent, which errs on
the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from pgc.runs import metrics

RESAMPLES = 4000
FLIPS = 20_000
UNDEFINED = 0.05
"""An interval is undefined if more than this share of its resamples are undefined."""
Interval = tuple[float, float]


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Returns Wilson's score interval for a proportion (Wilson 1927)."""
    z = float(stats.norm.ppf((1 + level) / 2))
    share, weight = successes / trials, z**2 / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z * np.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    low = 0.0 if successes == 0 else middle - half  # exactly: rounding must not leave [0, 1]
    return float(low), float(1.0 if successes == trials else middle + half)


def fisher(
    successes: int, trials: int, others: int, other_trials: int, alternative: str = "two-sided"
) -> float:
    """Returns the p of Fisher's exact test that two proportions are equal.

    The alternative `greater` is that the first one is larger.
    """
    table = [[successes, trials - successes], [others, other_trials - others]]
    return float(stats.fisher_exact(table, alternative=alternative).pvalue)


def bootstrap(
    statistic: Callable[..., np.ndarray], *samples: np.ndarray, level: float = 0.95, seed: int = 0
) -> Interval:
    """Returns a percentile bootstrap interval (Efron 1979).

    `statistic` works along the last axis of each sample and may give ∞.
    """
    rng = np.random.default_rng(seed)
    drawn = (_resample(rng, sample, len(sample)) for sample in samples)
    return _quantiles(statistic(*drawn), level)


def prediction(
    statistic: Callable[..., np.ndarray],
    size: int,
    *samples: np.ndarray,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Returns an interval in which the statistic of `size` new trials would fall.

    Resampling accounts for the chance in our trials and for that in the new ones.
    """
    rng = np.random.default_rng(seed)
    drawn = []
    for sample in samples:
        population = _resample(rng, sample, len(sample))
        drawn.append(
            np.take_along_axis(
                population, rng.integers(len(sample), size=(RESAMPLES, size)), axis=1
            )
        )
    return _quantiles(statistic(*drawn), level)


def smaller(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the one-sided Mann-Whitney p for values of `a` being smaller than those of `b`.

    Infinite values are ties.
    """
    both = np.concatenate([a, b])
    ranks = stats.rankdata(both)
    if np.ptp(ranks) == 0:
        return 1.0
    return float(stats.mannwhitneyu(ranks[: len(a)], ranks[len(a) :], alternative="less").pvalue)


def paired(a: np.ndarray, b: np.ndarray, seed: int = 0) -> float:
    """Returns the one-sided p for `a` being larger than `b` on average, compared trial by trial.

    It is a permutation test, in which the signs of the differences are flipped at random.
    """
    differences = np.asarray(a, float) - np.asarray(b, float)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(FLIPS, len(differences)))
    as_large = np.sum(signs @ differences >= differences.sum() - 1e-9)
    return float((as_large + 1) / (FLIPS + 1))


def falling(groups: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns Kendall's τ of values against the order of their groups, and the p for a fall.

    The p is one-sided: a small one shows that values fall from group to group.
    """
    values = stats.rankdata(np.concatenate(groups))
    order = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    if np.ptp(values) == 0:
        return 0.0, 1.0
    result = stats.kendalltau(order, values, alternative="less")
    return float(result.statistic), float(result.pvalue)


def auc_at(submissions: int) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function that computes `metrics.auc` along the last axis, for N submissions.

    It divides before it takes the mean, so that last bits may differ from `metrics.auc`.
    """
    return lambda fsts: np.mean(areas(fsts, submissions), axis=-1)


def areas(fsts: np.ndarray, submissions: int) -> np.ndarray:
    """Returns what each trial adds to the area under the success curve."""
    return np.asarray(np.maximum(submissions + 1 - fsts, 0.0) / submissions)


def relative_auc_at(submissions: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Returns a function that computes `metrics.relative_auc` along the last axis.

    Its value is NaN where the run without privacy never succeeds.
    """
    area = auc_at(submissions)

    def ratio(fsts: np.ndarray, nonprivate: np.ndarray) -> np.ndarray:
        base = area(nonprivate)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(base > 0, area(fsts) / base, np.nan)

    return ratio


def successes(fsts: np.ndarray, submissions: int) -> int:
    """Returns how many trials succeeded within this number of submissions."""
    return round(float(metrics.success_ratio(fsts, submissions)[0]) * len(fsts))


def _resample(rng: np.random.Generator, sample: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(sample)[rng.integers(len(sample), size=(RESAMPLES, size))]


def _quantiles(values: np.ndarray, level: float) -> Interval:
    """Returns an interval of order statistics, which are not interpolated: ∞ − ∞ never occurs."""
    if np.mean(np.isnan(values)) > UNDEFINED:
        return float("nan"), float("nan")
    ordered = np.sort(values[~np.isnan(values)])
    edge = (1 - level) / 2
    return float(ordered[int(edge * (len(ordered) - 1))]), float(
        ordered[int(np.ceil((1 - edge) * (len(ordered) - 1)))]
    )
