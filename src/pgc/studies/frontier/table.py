"""The table of a frontier: the results of each cell, beside those of its control."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgc.runs import metrics
from pgc.runs.sweep import Cell, Outcome
from pgc.studies import inference
from pgc.studies.frontier.plan import Settings, Way, cell_name

LOWER = 0.05
"""A way is called worse than the best if the one-sided p is below this number, divided by the
number of comparisons."""


def rows(
    settings: Settings, cells: Mapping[str, Cell], outcomes: Mapping[str, Outcome]
) -> list[dict[str, Any]]:
    """Returns a row for each way to report and each ε."""
    return [
        _row(way, epsilon, cells, outcomes)
        for way in settings.ways
        for epsilon in settings.epsilons
    ]


def _row(
    way: Way, epsilon: float, cells: Mapping[str, Cell], outcomes: Mapping[str, Outcome]
) -> dict[str, Any]:
    name = cell_name(way, epsilon, False)
    problem = cells[name].problem
    mine, control = outcomes[name], outcomes[cell_name(way, epsilon, True)]
    mechanism, threshold = problem.randomiser.mechanism, problem.training.world.score_threshold
    received = float(mine.received.mean())
    return {
        "way": way.key,
        "title": way.title
        if math.isfinite(epsilon)
        else "no privacy" + ", whole gradient" * way.whole_gradient,
        "epsilon": epsilon,
        "dimension": mechanism.dim,
        "error": mechanism.error() if math.isfinite(epsilon) else 0.0,
        **_seen(mine, threshold),
        "control": _seen(control, threshold),
        "p_value": inference.smaller(-mine.averaged, -control.averaged),
        "reports": received,
        "env_steps": float(mine.steps.mean()),
        "bytes_per_report": mechanism.report_bytes,
        "bytes": received * mechanism.report_bytes,
    }


def _seen(outcome: Outcome, threshold: float) -> dict[str, Any]:
    good = int(np.sum(outcome.averaged >= threshold))
    trials = len(outcome.averaged)
    return {
        "trials": trials,
        "fst_median": float(metrics.median(outcome.fst)),
        "fst_quartiles": [float(np.sort(outcome.fst)[int(q * (trials - 1))]) for q in (0.25, 0.75)],
        "success_ratio": float(np.mean(np.isfinite(outcome.fst))),
        "final_score": float(outcome.final.mean()),
        "final_good": float(np.mean(outcome.final >= threshold)),
        "averaged_score": float(outcome.averaged.mean()),
        "averaged_good": good / trials,
        "averaged_good_interval": [float(end) for end in inference.wilson(good, trials)],
        "fst": outcome.fst.tolist(),
        "averaged": [round(float(score), 2) for score in outcome.averaged],
    }


def best(table: list[dict[str, Any]], epsilon: float) -> dict[str, Any]:
    """Returns the row to choose at this ε.

    It has the most good averaged policies; of equals, the highest mean score, then the earliest
    first success, then the fewest bytes a report.
    """
    return max(
        (row for row in table if row["epsilon"] == epsilon),
        key=lambda row: (
            row["averaged_good"],
            round(row["averaged_score"], 1),
            -row["fst_median"],
            -row["bytes_per_report"],
        ),
    )


def as_good(table: list[dict[str, Any]], epsilon: float) -> list[dict[str, Any]]:
    """Returns the other rows of this ε whose averaged scores are not shown to be worse.

    They are compared with those of the best row.
    """
    first = best(table, epsilon)
    others = [row for row in table if row["epsilon"] == epsilon and row["way"] != first["way"]]
    mine = -np.array(first["averaged"])
    return [
        row
        for row in others
        if inference.smaller(mine, -np.array(row["averaged"])) >= LOWER / len(others)
    ]
