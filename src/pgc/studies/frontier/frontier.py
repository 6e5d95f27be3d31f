"""`pgc frontier`: runs every mechanism at every ε, with controls, and leaves a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pgc.engines.backend import Backend
from pgc.errors import PgcError, refuse_code
from pgc.local_training.worlds.registry import make_world
from pgc.runs import sweep
from pgc.runs.folder import Folder, new_path
from pgc.runs.progress import Show
from pgc.runs.sweep import Outcome
from pgc.studies.frontier import pictures, table
from pgc.studies.frontier.plan import Settings, cells
from pgc.studies.pages import read_settings, write_report
from pgc.studies.study import only_resumed, run_study

TEMPLATE = Path(__file__).parent / "templates" / "frontier.html.jinja"
TRIALS, SUBMISSIONS = 20, 2000
QUICK_TRIALS, QUICK_SUBMISSIONS = 4, 200


def frontier(
    *,
    trials: int | None = None,
    submissions: int | None = None,
    world: str = "cartpole",
    seed: int = 0,
    quick: bool = False,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    progress: Show = "auto",
    engine: str = "local",
    address: str | None = None,
    run_code: bool = False,
) -> Folder:
    """Compares mechanisms over ε in one world, and returns the folder with the report in it.

    `run_code` lets a folder that is resumed run the code that its settings name.
    """
    if resume is not None:
        only_resumed(
            (trials, submissions, world, seed, quick, out),
            (None, None, "cartpole", 0, False, None),
        )
        folder, settings = (
            Folder(Path(resume)),
            read_settings(Path(resume), Settings, "pgc frontier"),
        )
        refuse_code({"world": settings.world}, folder.path / "config.yaml", run_code)
    else:
        settings = Settings(
            trials=(QUICK_TRIALS if quick else TRIALS) if trials is None else trials,
            submissions=(QUICK_SUBMISSIONS if quick else SUBMISSIONS)
            if submissions is None
            else submissions,
            seed=seed,
            world=world,
            quick=quick,
        )
        folder = Folder(Path(out) if out is not None else new_path("frontier"))
    if settings.trials < 2:
        raise PgcError(f"trials must be at least 2 to compare, not {settings.trials}")
    planned = cells(settings)

    def write(outcomes: Mapping[str, Outcome]) -> None:
        _write(
            folder, settings, table.rows(settings, {cell.name: cell for cell in planned}, outcomes)
        )

    return run_study(
        "pgc frontier",
        settings,
        planned,
        folder,
        write,
        new=resume is None,
        backend=Backend(engine, address),
        progress=progress,
    )


def _write(folder: Folder, settings: Settings, rows: list[dict[str, Any]]) -> None:
    size = f"{settings.trials} trials a cell, {settings.submissions:,} reports"
    note = f"{settings.world}, {size}, seed {settings.seed}"
    note = f"QUICK LOOK: {note}" if settings.quick else note
    figures = {
        "score": pictures.by_epsilon(
            rows, "averaged_score", "mean score of the averaged policy over all ψ", note
        ),
        "fst": pictures.by_epsilon(
            rows,
            "fst_median",
            "reports until first success (median)",
            note,
            top=settings.submissions,
        ),
    }
    choices = [_choice(rows, epsilon) for epsilon in settings.epsilons]
    summary = {
        "command": _command(settings),
        **asdict(settings),
        "threshold": make_world(settings.world).score_threshold,
        "note": note,
        **sweep.facts(folder),
        "best": {
            f"{epsilon:g}": "none" if math.isinf(epsilon) else table.best(rows, epsilon)["way"]
            for epsilon in settings.epsilons
        },
        "cells": rows,
        "choices": choices,
        "meaning": "\n".join(map(_in_words, choices)),
    }
    write_report(folder, TEMPLATE, summary, figures, {"inf": math.inf})


def _choice(rows: list[dict[str, Any]], epsilon: float) -> dict[str, Any]:
    """Returns which way to report to choose at this ε, what it costs, and which others were not
    shown to be worse.
    """
    row = table.best(rows, epsilon)
    alike = [] if math.isinf(epsilon) else table.as_good(rows, epsilon)
    return {
        "epsilon": epsilon,
        "title": "no privacy" if math.isinf(epsilon) else row["title"],
        **{key: row[key] for key in ("fst_median", "averaged_good", "bytes_per_report")},
        "control_good": row["control"]["averaged_good"],
        "as_good": [f"{other['title']} ({other['bytes_per_report']})" for other in alike],
    }


def _in_words(choice: dict[str, Any]) -> str:
    """Says a choice in a line, for the terminal."""
    epsilon, fst = choice["epsilon"], choice["fst_median"]
    at = "" if math.isinf(epsilon) else f"ε = {epsilon:g}: "
    success = "no success" if math.isinf(fst) else f"first success after {fst:.0f} reports"
    return (
        f"{at}{choice['title']}: {success}, averaged policy good in {choice['averaged_good']:.0%} "
        f"of trials (control {choice['control_good']:.0%}), {choice['bytes_per_report']} byte(s) a "
        "report"
    )


def _command(settings: Settings) -> str:
    words = [
        "pgc frontier",
        "--quick" * settings.quick,
        f"--world {settings.world}" * (settings.world != "cartpole"),
    ]
    words += [
        f"--trials {settings.trials}",
        f"--submissions {settings.submissions}",
        f"--seed {settings.seed}",
    ]
    return " ".join(filter(None, words))
