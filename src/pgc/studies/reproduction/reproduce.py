"""`pgc reproduce`: run the cells, compare them with the paper, leave a folder with a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pgc.engines.backend import Backend
from pgc.errors import PgcError
from pgc.runs import sweep
from pgc.runs.folder import Folder, new_path
from pgc.runs.progress import Show
from pgc.runs.sweep import Cell, Outcome
from pgc.studies.pages import Files, read_settings, write_report
from pgc.studies.reproduction import choices, claims, meaning, paper, pgc_default, pictures, tables
from pgc.studies.reproduction.paper import WORDS
from pgc.studies.reproduction.plan import (
    CHOOSING,
    COLUMNS,
    READING_TRIALS,
    Column,
    Settings,
    main_cells,
    reading_cells,
)
from pgc.studies.reproduction.readings import CHOICES, describe
from pgc.studies.study import only_resumed, run_study

TEMPLATES = Path(__file__).parent / "templates"
QUICK_TRIALS, QUICK_SUBMISSIONS = 6, 2000


def reproduce(
    *,
    trials: int | None = None,
    submissions: int | None = None,
    seed: int = 0,
    quick: bool = False,
    readings: bool = False,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    progress: Show = "auto",
    engine: str = "local",
    address: str | None = None,
) -> Folder:
    """Runs the paper's evaluation, and returns the folder with the report in it.

    With `readings`, it varies the choices that the paper leaves open instead.
    """
    if resume is not None:
        only_resumed(
            (trials, submissions, seed, quick, readings, out),
            (None, None, 0, False, False, None),
        )
        folder, settings = (
            Folder(Path(resume)),
            read_settings(Path(resume), Settings, "pgc reproduce"),
        )
    else:
        usual_trials = READING_TRIALS if readings else QUICK_TRIALS if quick else paper.TRIALS
        usual_submissions = QUICK_SUBMISSIONS if quick else paper.SUBMISSIONS
        settings = Settings(
            trials=usual_trials if trials is None else trials,
            submissions=usual_submissions if submissions is None else submissions,
            seed=seed,
            readings=readings,
            quick=quick,
        )
        folder = Folder(
            Path(out) if out is not None else new_path("readings" if readings else "reproduce")
        )
    write = _write_readings if settings.readings else _write_main
    return run_study(
        "pgc reproduce",
        settings,
        _cells(settings),
        folder,
        partial(write, folder, settings),
        new=resume is None,
        backend=Backend(engine, address),
        progress=progress,
    )


def _cells(settings: Settings) -> list[Cell]:
    if settings.trials < 2:
        raise PgcError(f"trials must be at least 2 to give intervals, not {settings.trials}")
    if settings.submissions < 100:
        raise PgcError(f"submissions must be at least 100, not {settings.submissions}")
    if not 0 <= settings.seed < 2**32 - CHOOSING:
        raise PgcError(f"seed must be between 0 and {2**32 - CHOOSING - 1}, not {settings.seed}")
    if settings.readings:
        return reading_cells(settings)
    return [*main_cells(settings), *pgc_default.cells(settings)]


def _write_main(folder: Folder, settings: Settings, outcomes: Mapping[str, Outcome]) -> None:
    columns = [Column(reading, outcomes, settings.submissions) for reading in COLUMNS]
    rows = [
        tables.row(column, mechanism, epsilon)
        for column in columns
        for mechanism, epsilon in paper.CELLS
    ]
    default, note = pgc_default.rows(outcomes, settings.submissions), settings.note
    figures = {
        "success": pictures.by_epsilon(rows, "success_ratio", "success ratio", note, top=1.0),
        "fst": pictures.by_epsilon(
            rows,
            "fst_median",
            "median first success time",
            note,
            top=settings.submissions,
            log=True,
            default=default,
        ),
        "auc": pictures.by_epsilon(rows, "relative_auc", "relative AUC", note, top=1.5),
    }
    for column in columns:
        figures[f"figure2-{column.reading.key}"] = pictures.learning_curves(column, note)
        figures[f"figure3-{column.reading.key}"] = pictures.success_curves(column, note)
    summary = {
        **_facts(folder, settings),
        "verdict": {
            column.reading.key: meaning.against_paper(rows, column.reading.key)
            for column in columns
        },
        "cells": rows,
        "default": default,
        "claims": claims.verdicts(columns),
        "meaning": {
            "default": meaning.default(default),
            "success": meaning.success(rows),
            "fst": meaning.first_success(rows),
            "auc": meaning.area(rows),
            **{f"figure2-{column.reading.key}": meaning.curves(column) for column in columns},
            **{f"figure3-{column.reading.key}": meaning.ratios(column) for column in columns},
        },
    }
    _finish(folder, "report.html.jinja", summary, figures)


def _write_readings(folder: Folder, settings: Settings, outcomes: Mapping[str, Outcome]) -> None:
    table = choices.rows(outcomes, settings.submissions)
    chosen = choices.nearest(table)
    summary = {
        **_facts(folder, settings),
        "chosen": chosen["key"],
        "readings": table,
        "meaning": {"readings": meaning.choices(table, chosen)},
    }
    _finish(
        folder, "readings.html.jinja", summary, {"readings": pictures.choices(table, settings.note)}
    )


def _finish(
    folder: Folder, template: str, summary: dict[str, Any], figures: Mapping[str, Files]
) -> None:
    by = {(c["reading"], c["mechanism"], c["epsilon"]): c for c in summary.get("cells", [])}
    known = {
        "by": by,
        "default": {row["epsilon"]: row for row in summary.get("default", [])},
        "paper": paper,
        "words": WORDS,
        "columns": COLUMNS,
        "choices": CHOICES,
        "describe": describe,
    }
    write_report(folder, TEMPLATES / template, summary, figures, known)


def _facts(folder: Folder, settings: Settings) -> dict[str, Any]:
    """Returns what was run, on which machine, and how long it took."""
    return {
        "command": settings.command,
        **asdict(settings),
        "figure_trials": settings.figure_trials,
        "note": settings.note,
        **sweep.facts(folder),
    }
