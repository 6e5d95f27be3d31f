"""The stopping rule: a trial ends when its noisy booleans show that the policy succeeds.

It reads nothing but what agents report. It is not in the paper, so `reference.py` has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pgc.config.problem import Problem
from pgc.randomise.mechanisms.score_bit import ScoreBit


class Window(NamedTuple):
    """The noisy booleans of the current window: numbers, or arrays with one entry per lane."""

    reports: Any
    ones: Any


@dataclass(frozen=True)
class StoppingRule:
    """Stops when the debiased success rate of a whole window exceeds `rate` by two standard
    deviations.
    """

    score_bit: ScoreBit
    rate: float
    window: int

    def watch(self, seen: Window, bit: Any, arrived: Any) -> tuple[Window, Any]:
        """Counts a noisy boolean where one arrived; returns the counts, and whether to stop."""
        reports, ones = seen.reports + arrived, seen.ones + (arrived & bit)
        full = reports >= self.window
        stop = full & self.score_bit.surely_above(ones, self.window, self.rate)
        return Window(reports * (1 - full), ones * (1 - full)), stop


def stopping_rule(problem: Problem) -> StoppingRule | None:
    """Returns a problem's rule, or None if it has no rate or its agents report no booleans."""
    config, score_bit = problem.config, problem.randomiser.score_bit
    if config.stop_rate is None or score_bit is None:
        return None
    return StoppingRule(score_bit, config.stop_rate, config.stop_window)
