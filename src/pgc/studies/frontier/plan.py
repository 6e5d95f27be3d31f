"""Which cells a frontier runs: every way to report, at every ε, with its zero-gradient control."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pgc.config import configure
from pgc.runs.sweep import Cell

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf)


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to report: a mechanism, for the whole gradient or in a public subspace."""

    key: str
    title: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def whole_gradient(self) -> bool:
        """Whether the whole gradient is reported, not its coordinates in a public subspace."""
        return self.settings.get("subspace") == "full"


MECHANISMS = {
    "index": "index", "privunit": "PrivUnit2", "privunitg": "PrivUnitG", "duchi": "Duchi",
    "prs-sign": "PRS, sign limit", "piecewise": "piecewise", "laplace": "Laplace",
}  # fmt: skip
"""The mechanisms and their titles; the first is the default of `pgc train`."""
WAYS = tuple(
    Way(key=name, title=title, settings={"mechanism": name}) for name, title in MECHANISMS.items()
) + tuple(
    Way(
        key=f"{name}-whole",
        title=f"{MECHANISMS[name]}, whole gradient",
        settings={"mechanism": name, "subspace": "full"},
    )
    for name in ("index", "prs-sign", "laplace")
)
QUICK_WAYS = tuple(way for way in WAYS if way.key in ("index", "laplace", "index-whole"))
QUICK_EPSILONS = (0.25, 1.0, 5.0, math.inf)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is run: how much, with which seed, and in which world."""

    trials: int
    submissions: int
    seed: int
    world: str
    quick: bool

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways to report that are compared."""
        return QUICK_WAYS if self.quick else WAYS

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The values of ε at which ways to report are compared."""
        return QUICK_EPSILONS if self.quick else EPSILONS


def cell_name(way: Way, epsilon: float, control: bool) -> str:
    """Returns the name of a cell.

    Without privacy all mechanisms are the same, so they share a cell: one for those that report the
    whole gradient, and one for those that report in a subspace.
    """
    key = ("none-whole" if way.whole_gradient else "none") if epsilon == math.inf else way.key
    return f"{key}/{epsilon:g}" + ("-control" if control else "")


def cells(settings: Settings) -> list[Cell]:
    """Returns every cell of the plan, once."""
    made: dict[str, Cell] = {}
    for way in settings.ways:
        for epsilon in settings.epsilons:
            for control in (False, True):
                config = configure(
                    **way.settings, epsilon=epsilon, control=control, world=settings.world,
                    trials=settings.trials, submissions=settings.submissions, seed=settings.seed,
                    eval_episodes=20 if settings.quick else 100,
                )  # fmt: skip
                name = cell_name(way, epsilon, control)
                made.setdefault(name, Cell(name=name, config=config))
    return list(made.values())
