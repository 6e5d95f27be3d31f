"""The table of a suite: a row for each world and ε, beside its control and the public start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pgc.runs import metrics
from pgc.runs.sweep import Cell, Outcome
from pgc.studies import inference
from pgc.studies.suite.plan import Settings, Task, cell_name, public_name


def worlds(
    settings: Settings, cells: Mapping[str, Cell], outcomes: Mapping[str, Outcome]
) -> list[dict[str, Any]]:
    """Returns each world with its rows, one for each ε."""
    return [_world(settings, task, cells, outcomes) for task in settings.tasks]


def _world(
    settings: Settings, task: Task, cells: Mapping[str, Cell], outcomes: Mapping[str, Outcome]
) -> dict[str, Any]:
    problem = cells[public_name(task)].problem
    return {
        "title": task.title,
        "world": task.world,
        "threshold": problem.training.world.score_threshold,
        "submissions": settings.submissions(task),
        "population": list(cells[public_name(task)].judged or ()),
        "usual": task.usual,
        "public_start": _scores(outcomes[public_name(task)]),
        "rows": [_row(task, epsilon, cells, outcomes) for epsilon in settings.epsilons],
    }


def _row(
    task: Task, epsilon: float, cells: Mapping[str, Cell], outcomes: Mapping[str, Outcome]
) -> dict[str, Any]:
    problem = cells[cell_name(task, epsilon, False)].problem
    mine, noise = (outcomes[cell_name(task, epsilon, control)] for control in (False, True))
    return {
        "epsilon": epsilon,
        **_scores(mine),
        "fst_median": float(metrics.median(mine.fst)),
        "good": float(np.mean(mine.averaged >= problem.training.world.score_threshold)),
        "control": _scores(noise),
        "p_value": inference.smaller(-mine.averaged, -noise.averaged),
        "dimension": problem.randomiser.mechanism.dim,
        "local_episodes": problem.training.episodes,
        "bytes_per_report": problem.randomiser.mechanism.report_bytes,
    }


def _scores(outcome: Outcome) -> dict[str, Any]:
    """Returns the averaged policies' scores: their median, and of each trial."""
    return {
        "score": float(np.median(outcome.averaged)),
        "scores": [round(float(score), 2) for score in outcome.averaged],
    }
