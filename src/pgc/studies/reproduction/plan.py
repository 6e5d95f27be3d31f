"""Which cells a reproduction runs, and where to find the outcome of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgc.randomise.mechanisms.prs import paper_reduced_dim
from pgc.runs.sweep import Cell, Outcome
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.readings import (
    AS_PRINTED,
    BUFFER_SIZES,
    CLOSEST,
    END_REWARD,
    OTHERS,
    VARIATIONS,
    Reading,
    control_of,
)

COLUMNS = (AS_PRINTED, END_REWARD, CLOSEST)
"""The readings that are shown beside the paper, one in each column."""
TITLES = {reading.key: reading.title for reading in COLUMNS}
FIGURE_2 = (("laplace", 1), ("laplace", 100), ("prs", 1), ("prs", 100))
"""(mechanism, |B|) of each panel of Figure 2, at ε = 1."""
CHOOSING = 1000
"""Readings are compared on two sets of trials. Those of seed + CHOOSING choose the closest reading;
those of the seed itself are reported."""


READING_TRIALS = 10
"""Trials in each of the two sets on which readings are compared."""
FIGURE_TRIALS = 20
"""At most this many trials of each cell run to the end, for the curves and the final scores."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides a reproduction."""

    trials: int
    submissions: int
    seed: int
    readings: bool
    quick: bool

    @property
    def figure_trials(self) -> int:
        """Trials of each cell that run to the end and give the curves and the final scores.

        Readings are judged by success alone, so their trials stop once they succeed.
        """
        return 0 if self.readings else min(self.trials, FIGURE_TRIALS)

    @property
    def command(self) -> str:
        """The command that makes the same reproduction again."""
        words = [
            "pgc reproduce",
            "--readings" * self.readings,
            "--quick" * self.quick,
            f"--trials {self.trials}",
        ]
        words += [
            f"--submissions {self.submissions}" * (self.submissions != paper.SUBMISSIONS),
            f"--seed {self.seed}",
        ]
        return " ".join(filter(None, words))

    @property
    def note(self) -> str:
        """The note on every figure, which says what was run."""
        ran = f"{self.trials} trials a cell, {self.submissions:,} submissions, seed {self.seed}"
        usual = READING_TRIALS if self.readings else paper.TRIALS
        if self.submissions >= paper.SUBMISSIONS and self.trials >= usual:
            return ran
        return (
            f"QUICK LOOK, not the paper's {paper.TRIALS} trials of {paper.SUBMISSIONS:,} "
            f"submissions: {ran}"
        )


def cell_name(
    reading: Reading,
    mechanism: str,
    epsilon: float,
    *,
    control: bool = False,
    buffer_size: int | None = None,
) -> str:
    """Returns the name of a cell.

    Without a gradient, PRS sends fair coins whatever ε is, so its controls depend on d̂ alone and
    are shared.
    """
    reading = control_of(reading) if control else reading
    if mechanism == "none":
        what = "none"
    elif mechanism == "prs" and control:
        what = f"prs-d{paper_reduced_dim(epsilon, paper.DIM)}"
    else:
        what = f"{mechanism}-{epsilon:g}"
    if buffer_size not in (None, BUFFER_SIZES[mechanism]):
        what += f"-B{buffer_size}"
    return f"{reading.key}/{what}" + ("-control" if control else "")


def main_cells(settings: Settings) -> list[Cell]:
    """Returns the cells of Tables 1 to 3 (with controls) and Figures 2 and 3, for every column."""
    cells: dict[str, Cell] = {}
    for reading in COLUMNS:
        wanted: list[dict[str, Any]] = [
            {"mechanism": m, "epsilon": e, "control": control}
            for m, e in paper.CELLS
            for control in (False, True)
        ]
        wanted += [{"mechanism": m, "epsilon": 1.0, "buffer_size": b} for m, b in FIGURE_2]
        for what in wanted:
            name = cell_name(reading, **what)
            source = control_of(reading) if what.get("control") else reading
            cells.setdefault(name, _cell(name, source, settings, settings.seed, **what))
    return list(cells.values())


def reading_cells(settings: Settings) -> list[Cell]:
    """Returns the cells that compare the closest reading with its variations and other readings.

    Each cell is there twice: on the choosing and on the reporting trials.
    """
    cells = []
    for seed, which in ((settings.seed + CHOOSING, "choose"), (settings.seed, "report")):
        jobs = [
            (CLOSEST, ("laplace", "prs", "none")),
            *((v.reading, v.touches) for v in (*VARIATIONS, *OTHERS)),
        ]
        for reading, touches in jobs:
            for mechanism, epsilon in paper.CELLS:
                if mechanism in touches:
                    name = f"{which}/{cell_name(reading, mechanism, epsilon)}"
                    cells.append(
                        _cell(name, reading, settings, seed, mechanism=mechanism, epsilon=epsilon)
                    )
    return cells


def _cell(name: str, reading: Reading, settings: Settings, seed: int, **what: Any) -> Cell:
    common = {"trials": settings.trials, "submissions": settings.submissions, "seed": seed}
    return Cell(
        name=name,
        config=reading.config(what.pop("mechanism"), what.pop("epsilon"), **what, **common),
        figure_trials=settings.figure_trials,
    )


@dataclass(frozen=True)
class Column:
    """The outcomes of one reading."""

    reading: Reading
    outcomes: Mapping[str, Outcome]
    submissions: int
    prefix: str = ""
    """Prefix of the cells' names that selects a set of trials, where there are several."""

    def __call__(
        self,
        mechanism: str,
        epsilon: float,
        *,
        control: bool = False,
        buffer_size: int | None = None,
    ) -> Outcome:
        """Returns the outcome of one cell."""
        name = cell_name(self.reading, mechanism, epsilon, control=control, buffer_size=buffer_size)
        return self.outcomes[self.prefix + name]

    def fst(self, mechanism: str, epsilon: float, *, control: bool = False) -> np.ndarray:
        """Returns the first success times of a cell of the tables."""
        return self(mechanism, epsilon, control=control).fst
