"""The default of `pgc train` on the paper's task: a column beside the readings of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgc.config import configure
from pgc.runs import metrics
from pgc.runs.sweep import Cell, Outcome
from pgc.studies import inference
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.plan import Settings
from pgc.studies.reproduction.tables import score

EPSILONS = (*paper.EPSILONS, paper.INFINITY)
MOST_REPORTS = 4000
"""The default needs no more reports: an agent plays ten episodes for each of them, so that each is
worth more."""


def cells(settings: Settings) -> list[Cell]:
    """Returns a cell for each ε, and one for its control."""
    reports = min(MOST_REPORTS, max(100, settings.submissions // 20))
    run = {"trials": settings.trials, "submissions": reports, "seed": settings.seed}
    return [
        Cell(
            name=_name(epsilon, control),
            config=configure(epsilon=epsilon, control=control, **run),
            figure_trials=settings.figure_trials,
        )
        for epsilon in EPSILONS
        for control in (False, True)
    ]


def rows(outcomes: Mapping[str, Outcome], submissions: int) -> list[dict[str, Any]]:
    """Returns a row for each ε.

    A trial that has not succeeded by its last report counts as one that does not succeed within the
    paper's number of submissions.
    """
    return [
        _row(epsilon, outcomes[_name(epsilon, False)], outcomes[_name(epsilon, True)], submissions)
        for epsilon in EPSILONS
    ]


def _row(epsilon: float, ours: Outcome, control: Outcome, submissions: int) -> dict[str, Any]:
    k, c = (inference.successes(outcome.fst, submissions) for outcome in (ours, control))
    n = len(ours.fst)
    area = inference.auc_at(submissions)
    return {
        "epsilon": epsilon,
        "reports": int(ours.received.max()),
        "success_ratio": {
            "ours": k / n,
            "interval": inference.wilson(k, n),
            "control": c / n,
            "control_interval": inference.wilson(c, n),
        },
        "fst_median": {
            "ours": float(metrics.median(ours.fst)),
            "interval": inference.bootstrap(metrics.median, ours.fst),
            "control": float(metrics.median(control.fst)),
            "p_control": inference.smaller(ours.fst, control.fst),
        },
        "auc": {"ours": float(area(ours.fst)), "control": float(area(control.fst))},
        "final_score": score(ours.final, control.final),
        "averaged_score": score(ours.averaged, control.averaged),
        "env_steps_per_submission": float(ours.steps.sum() / ours.received.sum()),
        "fst": ours.fst.tolist(),
        "control_fst": control.fst.tolist(),
    }


def _name(epsilon: float, control: bool) -> str:
    return f"default/{epsilon:g}" + ("-control" if control else "")
