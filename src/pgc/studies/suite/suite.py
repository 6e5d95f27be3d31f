"""`pgc frontier --suite`: runs several worlds over ε, with controls, and leaves one report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pgc.engines.backend import Backend
from pgc.errors import PgcError
from pgc.runs import sweep
from pgc.runs.folder import Folder, new_path
from pgc.runs.progress import Show
from pgc.runs.sweep import Outcome
from pgc.studies.pages import read_settings, write_report
from pgc.studies.study import only_resumed, run_study
from pgc.studies.suite import pictures, table
from pgc.studies.suite.plan import NAMES, Settings, cells, installed

TEMPLATE = Path(__file__).parent / "templates" / "suite.html.jinja"
TRIALS, QUICK_TRIALS = 8, 2


def suite(
    *,
    worlds: tuple[str, ...] | None = None,
    trials: int | None = None,
    seed: int = 0,
    quick: bool = False,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    progress: Show = "auto",
    engine: str = "local",
    address: str | None = None,
) -> Folder:
    """Runs the worlds of the suite over ε, and returns the folder with the report in it.

    By default these are all whose packages are installed.
    """
    if resume is not None:
        only_resumed((worlds, trials, seed, quick, out), (None, None, 0, False, None))
        folder = Folder(Path(resume))
        settings = read_settings(folder.path, Settings, "pgc frontier --suite")
        settings = Settings(**{**asdict(settings), "worlds": tuple(settings.worlds)})
    else:
        settings = Settings(
            worlds=installed() if worlds is None else tuple(name.lower() for name in worlds),
            trials=(QUICK_TRIALS if quick else TRIALS) if trials is None else trials,
            seed=seed,
            quick=quick,
        )
        folder = Folder(Path(out) if out is not None else new_path("suite"))
    if settings.trials < 2:
        raise PgcError(f"trials must be at least 2 to compare, not {settings.trials}")
    planned = cells(settings)

    def write(outcomes: Mapping[str, Outcome]) -> None:
        _write(folder, settings, table.worlds(settings, {c.name: c for c in planned}, outcomes))

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


def _write(folder: Folder, settings: Settings, worlds: list[dict[str, Any]]) -> None:
    note = f"{settings.trials} trials a cell, seed {settings.seed}"
    note = f"QUICK LOOK: {note}" if settings.quick else note
    summary = {
        "command": _command(settings),
        **asdict(settings),
        "note": note,
        **sweep.facts(folder),
        "worlds": worlds,
        "meaning": "\n".join(map(_in_words, worlds)),
    }
    figures = {"worlds": pictures.by_world(worlds, note)}
    write_report(folder, TEMPLATE, summary, figures, {"inf": math.inf})


def _in_words(world: dict[str, Any]) -> str:
    """Says in a line what was reached in a world."""
    seen = [
        f"{'no privacy' if math.isinf(row['epsilon']) else 'ε = ' + format(row['epsilon'], 'g')}: "
        f"{row['score']:.0f} (noise alone {row['control']['score']:.0f})"
        for row in world["rows"]
    ]
    public = f"public start {world['public_start']['score']:.0f}"
    return f"{world['title']}: {', '.join(seen)}; {public}; Θ = {world['threshold']:g}"


def _command(settings: Settings) -> str:
    words = ["pgc frontier --suite", "--quick" * settings.quick]
    if settings.worlds != NAMES:
        words.append(f"--worlds {' '.join(settings.worlds)}")
    words += [f"--trials {settings.trials}", f"--seed {settings.seed}"]
    return " ".join(filter(None, words))
