"""`pgc reproduce --readings`: which of the open choices decide the result.

Each variation changes one choice of the closest reading. Its distance from the paper is the mean,
over the nine cells of Table 2, of the difference between success ratios. Readings are ranked on the
choosing trials; the results that are reported come from other trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgc.runs import metrics
from pgc.runs.sweep import Outcome
from pgc.studies import inference
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.plan import Column
from pgc.studies.reproduction.readings import CLOSEST, OTHERS, VARIATIONS, Variation, true_epsilon
from pgc.studies.reproduction.tables import CONSISTENT, comparable

DECIDES = 0.01
"""A choice is said to change how often a mechanism succeeds if the two-sided p, over all its cells
together, is below this."""
SETS = ("choose", "report")


def rows(outcomes: Mapping[str, Outcome], submissions: int) -> list[dict[str, Any]]:
    """Returns a row for the closest reading, then for its variations and the other readings."""
    base = Variation(choice="closest reading", taken="", instead="", reading=CLOSEST)
    return [_row(variation, outcomes, submissions) for variation in (base, *VARIATIONS, *OTHERS)]


def nearest(table: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the row of the reading that is closest to the paper on the choosing trials."""
    return min(table, key=lambda row: float(row["distance"]["choose"]))


def _row(variation: Variation, outcomes: Mapping[str, Outcome], submissions: int) -> dict[str, Any]:
    fsts = {which: _fsts(variation, outcomes, submissions, which) for which in SETS}
    base = {
        (m, e): Column(CLOSEST, outcomes, submissions, "report/").fst(m, e) for m, e in paper.CELLS
    }
    cells = []
    for (mechanism, epsilon), fst in fsts["report"].items():
        k, n = inference.successes(fst, submissions), len(fst)
        p = inference.fisher(k, n, paper.successes(mechanism, epsilon), paper.TRIALS)
        cells.append(
            {
                "mechanism": mechanism,
                "epsilon": epsilon,
                "paper": paper.SUCCESS_RATIO[mechanism][epsilon],
                "ours": k / n,
                "interval": inference.wilson(k, n),
                "fst_median": float(metrics.median(fst)),
                "p_paper": p,
                "consistent": p > CONSISTENT if comparable(submissions) else None,
            }
        )
    changes = (
        {m: _change(fsts["report"], base, m, submissions) for m in variation.touches}
        if variation.taken
        else {}
    )
    return {
        "key": variation.reading.key,
        "title": variation.reading.title if variation.taken else "the closest reading",
        "choice": variation.choice,
        "taken": variation.taken,
        "instead": variation.instead,
        "touches": variation.touches,
        "epsilon_factor": true_epsilon(variation.reading, "laplace", 1.0),
        "distance": {which: _distance(fsts[which], submissions) for which in SETS},
        "success": {
            m: float(np.mean([c["ours"] for c in cells if c["mechanism"] == m]))
            for m in ("laplace", "prs", "none")
        },
        "consistent": sum(c["consistent"] for c in cells) if comparable(submissions) else None,
        "changes": changes,
        "decides": [m for m, p in changes.items() if p < DECIDES],
        "cells": cells,
    }


def _fsts(
    variation: Variation, outcomes: Mapping[str, Outcome], submissions: int, which: str
) -> dict[tuple[str, float], np.ndarray]:
    """Returns the first success times of all nine cells.

    Cells that the choice cannot change are those of the closest reading.
    """
    mine = Column(variation.reading, outcomes, submissions, f"{which}/")
    base = Column(CLOSEST, outcomes, submissions, f"{which}/")
    return {(m, e): (mine if m in variation.touches else base).fst(m, e) for m, e in paper.CELLS}


def _distance(fsts: Mapping[tuple[str, float], np.ndarray], submissions: int) -> float:
    gaps = [
        inference.successes(f, submissions) / len(f) - paper.SUCCESS_RATIO[m][e]
        for (m, e), f in fsts.items()
    ]
    return float(np.mean(np.abs(gaps)))


def _change(
    fsts: Mapping[tuple[str, float], np.ndarray],
    base: Mapping[tuple[str, float], np.ndarray],
    mechanism: str,
    submissions: int,
) -> float:
    """Returns the two-sided p for a mechanism succeeding as often as in the closest reading.

    Successes over all ε are compared trial by trial.
    """
    ours, theirs = (
        np.sum([fst <= submissions for cell, fst in table.items() if cell[0] == mechanism], axis=0)
        for table in (fsts, base)
    )
    return min(1.0, 2 * min(inference.paired(ours, theirs), inference.paired(theirs, ours)))
