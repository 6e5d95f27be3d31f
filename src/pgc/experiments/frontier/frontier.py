"""`pgc frontier`: run mechanisms × ε with controls, leave a folder with a report."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from pgc.errors import Interrupted, PgcError, require
from pgc.experiments import sweep
from pgc.experiments.folder import Folder, new_path
from pgc.experiments.frontier import pictures, table
from pgc.experiments.frontier.plan import Size, cells
from pgc.experiments.reproduction.wording import FORMS
from pgc.experiments.statement import privacy_statement
from pgc.problem import build
from pgc.progress import Progress, stop_signals
from pgc.worlds import make_world

HERE = Path(__file__).parent
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
    progress: Progress | None = None,
) -> Folder:
    """Compare mechanisms over ε in one world, and return the folder with the report in it."""
    if resume is not None:
        if (trials, submissions, world, seed, quick, out) != (None, None, "cartpole", 0, False, None):
            raise PgcError("resume takes every setting from the folder itself; give nothing else")
        folder, size = Folder(Path(resume)), _read(Path(resume))
    else:
        size = Size(
            trials=(QUICK_TRIALS if quick else TRIALS) if trials is None else trials,
            submissions=(QUICK_SUBMISSIONS if quick else SUBMISSIONS) if submissions is None else submissions,
            seed=seed,
            world=world,
            quick=quick,
        )
        folder = Folder(Path(out) if out is not None else new_path("frontier"))
    if size.trials < 2:
        raise PgcError(f"trials must be at least 2 to compare, not {size.trials}")
    planned = cells(size)  # refuses what cannot be run before anything is made
    problems = {cell.name: build(cell.config) for cell in planned}
    if resume is None:
        folder.make(folder.path, "figures")
        folder.write("config.yaml", yaml.safe_dump(asdict(size), sort_keys=False).encode())
    with folder.locked(), stop_signals() as stop_asked:
        outcomes = sweep.run(planned, folder, progress=progress, stop_asked=stop_asked)
        if outcomes is None:
            raise Interrupted(f"stopped; continue with: pgc frontier --resume {folder.path}")
        _write(folder, size, table.rows(size, {cell.name: cell for cell in planned}, outcomes))
        statements = {name: privacy_statement(problem) for name, problem in problems.items() if not problem.config.control}
        folder.write_json("privacy.json", {"cells": statements})
    return folder


def _write(folder: Folder, size: Size, rows: list[dict[str, Any]]) -> None:
    note = f"{size.world}, {size.trials} trials a cell, {size.submissions:,} reports, seed {size.seed}"
    note = f"QUICK LOOK: {note}" if size.quick else note
    figures = {
        "score": pictures.by_epsilon(rows, "averaged_score", "mean score of the averaged policy over all ψ", note),
        "fst": pictures.by_epsilon(rows, "fst_median", "reports until first success (median)", note, top=size.submissions),
    }
    summary = {
        "command": _command(size),
        **asdict(size),
        "threshold": make_world(size.world).score_threshold,
        "note": note,
        **sweep.facts(folder),
        "best": {f"{epsilon:g}": table.best(rows, epsilon)["way"] for epsilon in size.epsilons},
        "cells": rows,
        "meaning": _meaning(size, rows),
    }
    for name, files in figures.items():
        for kind, data in files.items():
            folder.write(f"figures/{name}.{kind}", data)
    folder.write("report.html", _render(summary, figures).encode())
    folder.write_json("summary.json", summary)


def _meaning(size: Size, rows: list[dict[str, Any]]) -> str:
    """In a sentence for each ε, what to choose and what it costs."""
    lines = []
    for epsilon in size.epsilons:
        row = table.best(rows, epsilon)
        name = "without privacy" if math.isinf(epsilon) else f"ε = {epsilon:g}"
        fst = "no success" if math.isinf(row["fst_median"]) else f"first success after {row['fst_median']:.0f} reports"
        lines.append(
            f"{name}: {row['title']}: {fst}, averaged policy good in {row['averaged_good']:.0%} of trials "
            f"(control {row['control']['averaged_good']:.0%}), {row['bytes_per_report']} byte(s) a report."
        )
    return "\n".join(lines)


def _command(size: Size) -> str:
    words = ["pgc frontier", "--quick" * size.quick, f"--world {size.world}" * (size.world != "cartpole")]
    words += [f"--trials {size.trials}", f"--submissions {size.submissions}", f"--seed {size.seed}"]
    return " ".join(filter(None, words))


def _render(summary: Mapping[str, Any], figures: Mapping[str, pictures.Files]) -> str:
    jinja2 = require("jinja2", "report")
    folders = [HERE / "templates", HERE.parent / "reproduction" / "templates"]
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folders), autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= FORMS
    images = {name: "data:image/png;base64," + base64.b64encode(files["png"]).decode() for name, files in figures.items()}
    page: str = environment.get_template("frontier.html.jinja").render(s=summary, images=images, inf=math.inf)
    return page


def _read(path: Path) -> Size:
    try:
        return Size(**yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError):
        raise PgcError(f"{path} is not a folder that pgc frontier made; name one to --resume") from None
