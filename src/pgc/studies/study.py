"""Runs a study: a plan of many cells, which becomes one sweep and a folder with a report.

It can be stopped and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from pgc.engines.backend import Backend
from pgc.errors import Interrupted, PgcError
from pgc.privacy.statement import privacy_statement
from pgc.runs import sweep
from pgc.runs.folder import Folder
from pgc.runs.programs import keep_programs
from pgc.runs.progress import Show, shown, stop_signals
from pgc.runs.sweep import Cell, Outcome


def only_resumed(given: tuple[Any, ...], usual: tuple[Any, ...]) -> None:
    """Refuses settings beside a folder to resume, which keeps its own: those that are given must be
    the usual ones.
    """
    if given != usual:
        raise PgcError("resume takes every setting from the folder itself; give nothing else")


def run_study(
    command: str,
    settings: Any,
    cells: Sequence[Cell],
    folder: Folder,
    write: Callable[[Mapping[str, Outcome]], None],
    *,
    new: bool,
    backend: Backend,
    progress: Show,
) -> Folder:
    """Runs every cell, writes the report and privacy.json, and returns the folder.

    A folder that is not `new` is continued from its checkpoint. `settings` is the dataclass that
    config.yaml holds; `write` writes the report of the outcomes. What cannot be run is refused
    before the folder is made.
    """
    for cell in cells:
        backend.check(cell.problem)
    statements = {
        cell.name: privacy_statement(cell.problem) for cell in cells if not cell.config.control
    }
    if new:
        folder.make(folder.path, "figures")
        folder.write("config.yaml", yaml.safe_dump(asdict(settings), sort_keys=False).encode())
    keep_programs()
    with folder.locked(), stop_signals() as stop_asked, shown(progress) as report:
        outcomes = sweep.run(cells, folder, progress=report, stop_asked=stop_asked, backend=backend)
        if outcomes is None:
            raise Interrupted(f"stopped; continue with: {command} --resume {folder.path}")
        write(outcomes)
        folder.write_json("privacy.json", {"cells": statements})
    return folder
