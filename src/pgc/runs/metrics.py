"""The paper's metrics, exactly as it defines them, on the scores ζ_1 … ζ_N of a trial."""

from __future__ import annotations

from typing import Any

import numpy as np

WINDOW = 10
"""m, the number of submissions that μ_n averages."""


def average_scores(scores: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Returns μ_n = (1/m)·Σ_{n'=n}^{n+m−1} ζ_{n'} for n = 1 … N − m + 1 (eq. avgscore).

    m is `window`. Entry 0 of the result is μ_1.
    """
    if len(scores) < window:
        return np.empty(0)
    sums = np.cumsum(np.concatenate([[0.0], np.asarray(scores, float)]))
    return np.asarray((sums[window:] - sums[:-window]) / window)


def first_success_time(scores: np.ndarray, threshold: float, window: int = WINDOW) -> float:
    """FST = min{n : μ_n ≥ Θ} (eq. fst), counted from 1; ∞ if there is none."""
    successes = np.flatnonzero(average_scores(scores, window) >= threshold)
    return float(successes[0] + 1) if len(successes) else float("inf")


def success_ratio(fsts: np.ndarray, submissions: np.ndarray | int) -> np.ndarray:
    """Returns |{k : FST_k ≤ n}| / K at each n: the share of trials that have succeeded by then."""
    return np.asarray(np.mean(np.asarray(fsts)[:, None] <= np.atleast_1d(submissions), axis=0))


def auc(fsts: np.ndarray, submissions: int) -> float:
    """Returns the area under success_ratio(n) for n = 1 … N, divided by N: the mean over n."""
    # how many n ≤ N have n ≥ FST
    remaining = np.maximum(submissions + 1 - np.asarray(fsts, float), 0.0)
    return float(np.mean(remaining) / submissions)


def relative_auc(fsts: np.ndarray, nonprivate_fsts: np.ndarray, submissions: int) -> float:
    """Returns `auc` divided by that of the run without privacy (Table 3); NaN if that is 0."""
    base = auc(nonprivate_fsts, submissions)
    return auc(fsts, submissions) / base if base > 0 else float("nan")


def median(fsts: np.ndarray) -> np.ndarray:
    """Returns the median along the last axis; ∞, never NaN, if a middle one is infinite."""
    ordered, size = np.sort(fsts, axis=-1), fsts.shape[-1]
    low, high = ordered[..., (size - 1) // 2], ordered[..., size // 2]
    with np.errstate(invalid="ignore"):
        return np.where(low == high, low, (low + high) / 2)


class SuccessTracker:
    """Computes FST and the latest μ of every trial from scores that arrive piece by piece.

    Its memory does not grow with the number of scores.
    """

    def __init__(self, trials: int, threshold: float, window: int = WINDOW) -> None:
        self._window, self._threshold = window, threshold
        self._tails = [np.empty(0) for _ in range(trials)]
        self._seen = np.zeros(trials, np.int64)
        self.fst = np.full(trials, np.inf)

    def add(self, trial: int, scores: np.ndarray) -> None:
        """Adds the next scores of a trial."""
        joined = np.concatenate([self._tails[trial], scores])
        if np.isinf(self.fst[trial]):
            within = first_success_time(joined, self._threshold, self._window)
            self.fst[trial] = self._seen[trial] - len(self._tails[trial]) + within
        self._seen[trial] += len(scores)
        self._tails[trial] = joined[-(self._window - 1) :] if self._window > 1 else np.empty(0)

    def add_all(self, trials: np.ndarray, scores: np.ndarray) -> None:
        """Adds the next scores of several trials, sorted by trial and in order within each."""
        for trial, first in zip(*np.unique(trials, return_index=True), strict=True):
            self.add(trial, scores[first : np.searchsorted(trials, trial, side="right")])

    def save(self) -> dict[str, list[Any]]:
        """Returns the whole state as plain lists."""
        return {
            "tails": [tail.tolist() for tail in self._tails],
            "seen": self._seen.tolist(),
            "fst": [None if np.isinf(f) else f for f in self.fst],
        }

    def load(self, saved: dict[str, list[Any]]) -> None:
        """Restores a state that `save` returned."""
        self._tails = [np.array(tail, float) for tail in saved["tails"]]
        self._seen = np.array(saved["seen"], np.int64)
        self.fst = np.array([np.inf if f is None else f for f in saved["fst"]])

    def recent(self) -> float:
        """Returns the mean of the latest scores of all trials, which progress bars show as μ."""
        tails = np.concatenate(self._tails)
        return float(tails.mean()) if len(tails) else float("nan")


class CurveSampler:
    """Samples μ_n of every trial at evenly spaced n, from scores that arrive piece by piece.

    It is NaN at n that a trial has not reached.
    """

    def __init__(self, trials: int, submissions: int, points: int, window: int = WINDOW) -> None:
        self._window = window
        last = submissions - window + 1
        self.n = (
            np.unique(np.linspace(1, last, points).round().astype(int))
            if last >= 1
            else np.empty(0, int)
        )
        self._place = np.full(submissions + 1, -1)
        self._place[self.n] = np.arange(len(self.n))
        self.sums = np.zeros((trials, len(self.n)), np.float32)
        self.counts = np.zeros((trials, len(self.n)), np.int8)

    def add(self, trials: np.ndarray, n: np.ndarray, scores: np.ndarray) -> None:
        """Adds scores ζ_n of some trials, in any order; n is counted from 1."""
        for back in range(self._window):  # ζ_n is part of μ_n, μ_{n−1}, …, μ_{n−m+1}
            place = np.where(n > back, self._place[np.maximum(n - back, 0)], -1)
            at = trials[place >= 0], place[place >= 0]
            np.add.at(self.sums, at, scores[place >= 0])
            np.add.at(self.counts, at, 1)

    @property
    def curve(self) -> np.ndarray:
        """The samples of μ_n at `n`, of shape (trials, points)."""
        return np.where(self.counts == self._window, self.sums / self._window, np.nan)
