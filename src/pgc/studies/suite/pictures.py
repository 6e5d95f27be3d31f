"""The figure of a suite: the score over ε in each world, as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgc.runs.figures import new_figure
from pgc.studies.pages import Files, saved

PRIVATE, CONTROL, PUBLIC, SUCCESS = "#c8502c", "#5c666d", "#2e7d4f", "#8a8f94"
COLUMNS, WIDE, HIGH = 3, 3.7, 3.0


def by_world(worlds: Sequence[dict[str, Any]], note: str) -> Files:
    """Plots, for each world, the averaged policy's score over ε: the median of the trials as a
    line, each trial as a dot; the control; and two levels, the public start and Θ.
    """
    columns = min(COLUMNS, len(worlds))
    rows = -(-len(worlds) // columns)
    figure, axes = new_figure(
        rows, columns, figsize=(WIDE * columns, HIGH * rows + 0.5), layout="constrained"
    )
    flat = np.atleast_1d(axes).ravel()
    for panel, world in zip(flat, worlds, strict=False):
        _panel(panel, world)
    for panel in flat[len(worlds) :]:
        panel.set_visible(False)
    handles, labels = flat[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        frameon=False,
        fontsize=9,
        ncols=4 if columns > 2 else 2,
        loc="outside lower center",
    )
    return saved(figure, note)


def _panel(axes: Any, world: dict[str, Any]) -> None:
    rows = world["rows"]
    x = np.arange(len(rows))
    for key, colour, style, label in (
        (None, PRIVATE, "-", "learnt from reports"),
        ("control", CONTROL, "--", "noise alone (control)"),
    ):
        seen = [row if key is None else row[key] for row in rows]
        axes.plot(x, [s["score"] for s in seen], style, color=colour, lw=1.8, label=label)
        for at, one in zip(x, seen, strict=True):
            dots = np.full(len(one["scores"]), at)
            axes.plot(dots, one["scores"], "o", color=colour, ms=3, alpha=0.4, mew=0)
    public = world["public_start"]["score"]
    axes.axhline(public, color=PUBLIC, lw=1.2, ls=":", label="public start, no reports")
    if math.isfinite(world["threshold"]):
        axes.axhline(world["threshold"], color=SUCCESS, lw=0.8, label="Θ, a success")
    names = ["∞" if math.isinf(row["epsilon"]) else f"{row['epsilon']:g}" for row in rows]
    axes.set_xticks(x, names)
    axes.set_xlabel("ε of one agent, for all it ever sends", fontsize=8)
    axes.set_title(f"{world['title']}: {world['submissions']:,} reports", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
