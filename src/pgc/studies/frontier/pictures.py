"""The figures of a frontier, each as PNG and SVG. What was run is written on every one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pgc.runs.figures import new_figure
from pgc.studies.pages import Files, saved

GREY = "#5c666d"
COLOURS = ("#c8502c", "#1f5fa8", "#2e7d4f", "#8457a5", "#b58900", "#5c666d", "#1a9aa0")


def by_epsilon(
    table: Sequence[dict[str, Any]],
    quantity: str,
    label: str,
    note: str,
    *,
    top: float | None = None,
) -> Files:
    """Plots one quantity over ε: a line for each way to report, and a faint one for its control.

    Lines are dashed where the whole gradient is reported. With `top`, the quantity is on a
    logarithmic scale, and ∞ is drawn above `top`.
    """
    figure, axes = new_figure(figsize=(9, 5), layout="constrained")
    places = {epsilon: i for i, epsilon in enumerate(sorted({row["epsilon"] for row in table}))}
    ceiling = None if top is None else top * 1.5  # where ∞ is drawn
    colours: dict[str, str] = {}
    for key in dict.fromkeys(row["way"] for row in table):
        mine = [row for row in table if row["way"] == key]
        colour = colours.setdefault(
            key.removesuffix("-whole"), COLOURS[len(colours) % len(COLOURS)]
        )
        x, style = [places[row["epsilon"]] for row in mine], "--" if key.endswith("-whole") else "-"
        y, control = (
            [_finite(seen[quantity], ceiling) for seen in column]
            for column in (mine, [r["control"] for r in mine])
        )
        axes.plot(x, y, style, marker="o", ms=5, lw=1.6, color=colour, label=mine[0]["title"])
        axes.plot(x, control, style, marker="x", ms=4, lw=0.8, color=colour, alpha=0.35)
    axes.plot(
        [],
        [],
        marker="x",
        ms=4,
        lw=0.8,
        color="#5c666d",
        alpha=0.5,
        label="faint: controls (zero gradient)",
    )
    axes.set_xticks(list(places.values()), ["∞" if math.isinf(e) else f"{e:g}" for e in places])
    axes.set_xlabel("ε of one agent, for all it ever sends")
    axes.set_ylabel(label)
    if top is not None and ceiling is not None:
        axes.set_yscale("log")
        axes.axhline(top, color="#5c666d", lw=0.8)
        at = axes.get_yaxis_transform()  # x as a share of the width
        axes.text(0.03, ceiling, "no success", va="bottom", fontsize=8, color=GREY, transform=at)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, ncols=4, loc="outside lower center")
    return saved(figure, note)


def _finite(value: float, ceiling: float | None) -> float:
    return ceiling if ceiling is not None and math.isinf(value) else value
