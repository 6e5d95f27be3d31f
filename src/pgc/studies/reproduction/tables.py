"""Every cell of Tables 1 to 3: the paper's number, ours with its interval, its control, and the
verdict.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.runs import metrics
from pgc.studies import inference
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.plan import Column
from pgc.studies.reproduction.readings import BUFFER_SIZES, true_epsilon

CONSISTENT = 0.05
"""Our successes are called consistent with those of the paper's 20 trials if Fisher's p is above
this."""
LEARNS = 0.01
"""A cell is said to learn if Fisher's one-sided p for more successes than its control is below
this. Its gradient is said to do harm if the p for fewer successes is."""


def row(column: Column, mechanism: str, epsilon: float) -> dict[str, Any]:
    """Returns all results of one cell, beside the paper's and those of its control."""
    ours, control = column(mechanism, epsilon), column(mechanism, epsilon, control=True)
    return {
        "reading": column.reading.key,
        "mechanism": mechanism,
        "epsilon": epsilon,
        "true_epsilon": true_epsilon(column.reading, mechanism, epsilon),
        "buffer_size": BUFFER_SIZES[mechanism],
        "success_ratio": success_ratio(
            ours.fst, control.fst, column.submissions, mechanism, epsilon
        ),
        "fst_median": _fst_median(ours.fst, control.fst, column.submissions, mechanism, epsilon),
        "auc": _auc(ours.fst, control.fst, column.submissions),
        "relative_auc": _relative_auc(column, ours.fst, control.fst, mechanism, epsilon),
        "final_score": score(ours.final, control.final),
        "averaged_score": score(ours.averaged, control.averaged),
        "env_steps_per_submission": float(ours.steps.sum() / ours.received.sum()),
        "fst": ours.fst.tolist(),
        "control_fst": control.fst.tolist(),
    }


def comparable(submissions: int) -> bool:
    """Returns whether success can be compared with the paper's, which needs as many submissions."""
    return submissions == paper.SUBMISSIONS


def success_ratio(
    fst: np.ndarray, control: np.ndarray, submissions: int, mechanism: str, epsilon: float
) -> dict[str, Any]:
    """Returns a cell of Table 2."""
    k, n = inference.successes(fst, submissions), len(fst)
    c, m = inference.successes(control, submissions), len(control)
    p_paper = inference.fisher(k, n, paper.successes(mechanism, epsilon), paper.TRIALS)
    p_control = inference.fisher(k, n, c, m, "greater")
    return {
        "paper": paper.SUCCESS_RATIO[mechanism][epsilon],
        "paper_interval": inference.wilson(paper.successes(mechanism, epsilon), paper.TRIALS),
        "ours": k / n,
        "successes": k,
        "trials": n,
        "interval": inference.wilson(k, n),
        "p_paper": p_paper,
        "consistent": p_paper > CONSISTENT if comparable(submissions) else None,
        "control": c / m,
        "control_interval": inference.wilson(c, m),
        "p_control": p_control,
        "learns": p_control < LEARNS,
        "harmed": inference.fisher(c, m, k, n, "greater") < LEARNS,
    }


def _fst_median(
    fst: np.ndarray, control: np.ndarray, submissions: int, mechanism: str, epsilon: float
) -> dict[str, Any]:
    """Returns a cell of Table 1.

    It is consistent if the paper's median lies where that of 20 new trials of ours would lie 19
    times out of 20.
    """
    theirs = paper.FST_MEDIAN[mechanism][epsilon]
    low, high = inference.prediction(metrics.median, paper.TRIALS, fst)
    return {
        "paper": theirs,
        "ours": float(metrics.median(fst)),
        "interval": inference.bootstrap(metrics.median, fst),
        "prediction": (low, high),
        "consistent": low <= theirs <= high if comparable(submissions) else None,
        "control": float(metrics.median(control)),
        "control_interval": inference.bootstrap(metrics.median, control),
    }


def _auc(fst: np.ndarray, control: np.ndarray, submissions: int) -> dict[str, Any]:
    """Returns the absolute AUC, which means something even where the run without privacy fails."""
    area = inference.auc_at(submissions)
    return {
        "ours": float(area(fst)),
        "interval": inference.bootstrap(area, fst),
        "control": float(area(control)),
        "control_interval": inference.bootstrap(area, control),
    }


def _relative_auc(
    column: Column, fst: np.ndarray, control: np.ndarray, mechanism: str, epsilon: float
) -> dict[str, Any]:
    """Returns a cell of Table 3: AUC relative to that of the same reading at ε = ∞.

    It is undefined where no trial succeeds at ε = ∞. It is consistent in the sense of Table 1.
    """
    base = column.fst("none", paper.INFINITY)
    relative = inference.relative_auc_at(column.submissions)
    theirs = paper.RELATIVE_AUC[mechanism][epsilon]
    if mechanism == "none":  # 1 by definition
        return {
            "paper": theirs,
            "ours": float(relative(fst, base)),
            "interval": None,
            "consistent": None,
            "control": None,
        }
    low, high = inference.prediction(relative, paper.TRIALS, fst, base)
    return {
        "paper": theirs,
        "ours": float(relative(fst, base)),
        "interval": inference.bootstrap(relative, fst, base),
        "prediction": (low, high),
        "consistent": low <= theirs <= high
        if comparable(column.submissions) and not np.isnan(low)
        else None,
        "control": float(relative(control, base)),
    }


def score(ours: np.ndarray, control: np.ndarray) -> dict[str, Any]:
    """Returns the mean greedy score of the policies at the end, beside that of the control.

    `p_control` is the one-sided Mann-Whitney p for scores above the control's.
    """
    return {
        "ours": float(ours.mean()),
        "interval": inference.bootstrap(lambda x: x.mean(axis=-1), ours),
        "trials": len(ours),
        "control": float(control.mean()),
        "p_control": inference.smaller(-ours, -control),
    }
