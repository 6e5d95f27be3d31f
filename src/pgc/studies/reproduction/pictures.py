"""The figures of a reproduction, each as PNG and SVG.

What was run is written on every one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from pgc.runs import metrics
from pgc.runs.figures import new_figure
from pgc.studies.pages import Files, saved
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.paper import WORDS
from pgc.studies.reproduction.plan import FIGURE_2, TITLES, Column
from pgc.studies.reproduction.readings import true_epsilon

COLOURS = {
    "paper": "#222222",
    "printed": "#1f5fa8",
    "reward": "#2e7d4f",
    "closest": "#c8502c",
    "default": "#8457a5",
}
RAMP = {1.0: "#b7d3ea", 2.0: "#6fa9d6", 5.0: "#2f74b5", 10.0: "#123f75", paper.INFINITY: "#222222"}
"""ε from light to dark; no privacy is black."""
PANELS = {"laplace": "Laplace, |B| = 1", "prs": "PRS, |B| = 100"}
THRESHOLD, BEST = 195.0, 200.0
SINGLE_TRIALS = 10
"""Trials of which a learning curve shows each one as a thin line."""


def by_epsilon(
    cells: Sequence[dict[str, Any]],
    quantity: str,
    label: str,
    note: str,
    *,
    top: float,
    log: bool = False,
    default: Sequence[dict[str, Any]] = (),
) -> Files:
    """Plots one quantity over ε: the paper's number, and each reading's with its interval.

    Each reading's control is shown as well, and so is pgc's default, if its rows are given as
    `default`.
    """
    figure, panels = new_figure(1, 2, figsize=(10, 4.3), layout="constrained", share_y=True)
    for axes, mechanism in zip(panels, ("laplace", "prs"), strict=True):
        rows = [
            c
            for c in cells
            if c["mechanism"] in (mechanism, "none") and c[quantity]["interval"] is not None
        ]
        places = {e: i for i, e in enumerate(sorted({c["epsilon"] for c in rows}))}
        ceiling = top * (1.35 if log else 1.0)  # where ∞ is drawn
        theirs = {c["epsilon"]: c[quantity] for c in rows}
        x = np.array([places[e] for e in theirs])
        axes.plot(
            x,
            [q["paper"] for q in theirs.values()],
            "D",
            color=COLOURS["paper"],
            ms=6,
            label="the paper (20 trials)",
        )
        if all("paper_interval" in q for q in theirs.values()):
            low, high = np.array([q["paper_interval"] for q in theirs.values()]).T
            axes.vlines(x, low, high, color=COLOURS["paper"], lw=1)
        for shift, (key, title) in zip((-0.26, 0.12, 0.28), TITLES.items(), strict=True):
            mine = [c for c in rows if c["reading"] == key and _defined(c[quantity])]
            if not mine:
                continue
            x = np.array([places[c["epsilon"]] for c in mine]) + shift
            low, high = np.array([c[quantity]["interval"] for c in mine], float).T
            middle = np.array([c[quantity]["ours"] for c in mine], float)
            middle, low, high = (np.where(np.isinf(v), ceiling, v) for v in (middle, low, high))
            axes.errorbar(
                x,
                middle,
                [middle - low, high - middle],
                fmt="o",
                color=COLOURS[key],
                ms=6,
                capsize=3,
                lw=1.4,
                label=title,
            )
            control = np.array(
                [
                    np.nan if c[quantity]["control"] is None else c[quantity]["control"]
                    for c in mine
                ],
                float,
            )
            control = np.where(np.isinf(control), ceiling, control)
            axes.plot(
                x + 0.08,
                control,
                "x",
                color=COLOURS[key],
                ms=6,
                mew=1.5,
                alpha=0.75,
                label=f"{title}: control",
            )
        if default:
            mine = [c for c in default if c["epsilon"] in places]
            middle = np.array([c[quantity]["ours"] for c in mine])
            axes.plot(
                [places[c["epsilon"]] for c in mine],
                np.where(np.isinf(middle), ceiling, middle),
                "*",
                color=COLOURS["default"],
                ms=10,
                label="pgc's default",
            )
        axes.set_xticks(list(places.values()), ["∞" if np.isinf(e) else f"{e:g}" for e in places])
        axes.set(xlabel="ε (nominal)", xlim=(-0.5, len(places) - 0.5))
        axes.set_title(PANELS[mechanism], loc="left", fontsize=11)
        axes.grid(axis="y", alpha=0.25)
        if log:
            axes.set_yscale("log")
            axes.axhline(ceiling, color="#bbbbbb", lw=1, ls=":")
            axes.text(
                len(places) - 0.55,
                ceiling,
                "∞",
                va="bottom",
                ha="right",
                fontsize=9,
                color="#777777",
            )
        else:
            axes.set_ylim(-0.03, top * 1.05)
    panels[0].set_ylabel(label)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4,
        fontsize=8.5,
        frameon=False,
    )
    return saved(figure, note)


def success_curves(column: Column, note: str) -> Files:
    """Plots Figure 3: success_ratio(n) for each ε, and the controls."""
    figure, panels = new_figure(1, 2, figsize=(10, 4.0), layout="constrained", share_y=True)
    n = np.unique(np.linspace(1, column.submissions, 1500).astype(int))
    for axes, mechanism in zip(panels, ("laplace", "prs"), strict=True):
        for i, epsilon in enumerate(paper.EPSILONS):
            ratio = metrics.success_ratio(column.fst(mechanism, epsilon, control=True), n)
            label = "controls (zero gradient)" if i == 0 else None
            axes.step(n, ratio, where="post", color="#999999", lw=1, ls="--", label=label)
        for epsilon in (*paper.EPSILONS, paper.INFINITY):
            which = "none" if np.isinf(epsilon) else mechanism
            ratio = metrics.success_ratio(column.fst(which, epsilon), n)
            label = "ε = ∞" if np.isinf(epsilon) else f"ε = {epsilon:g}"
            axes.step(n, ratio, where="post", color=RAMP[epsilon], lw=1.8, label=label)
        axes.set(xlabel="submissions", ylim=(-0.02, 1.04), xlim=(0, column.submissions))
        _thousands(axes)
        factor = true_epsilon(column.reading, mechanism, 1.0)
        title = PANELS[mechanism] + (f" (truly {factor:g}·ε)" if factor > 1 else "")
        axes.set_title(f"{column.reading.title}: {title}", loc="left", fontsize=11)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("success ratio")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=6,
        fontsize=8.5,
        frameon=False,
    )
    return saved(figure, note)


def learning_curves(column: Column, note: str) -> Files:
    """Plots Figure 2: μ_n at ε = 1, with and without buffering.

    It shows the median and quartiles over trials, and single trials as thin lines.
    """
    figure, panels = new_figure(
        2, 2, figsize=(10, 6.2), layout="constrained", share_x=True, share_y=True
    )
    for axes, (mechanism, size) in zip(panels.flat, FIGURE_2, strict=True):
        outcome = column(mechanism, 1.0, buffer_size=size)
        colour = COLOURS[column.reading.key]
        axes.plot(
            outcome.n,
            outcome.curve[:SINGLE_TRIALS].T,
            color=colour,
            lw=0.4,
            alpha=0.2,
            rasterized=True,
        )
        low, middle, high = np.nanquantile(outcome.curve, [0.25, 0.5, 0.75], axis=0)
        axes.fill_between(outcome.n, low, high, color=colour, alpha=0.25, lw=0)
        axes.plot(outcome.n, middle, color=colour, lw=1.5)
        axes.axhline(THRESHOLD, color="#888888", lw=1, ls="--")
        title = (
            f"{'Laplace' if mechanism == 'laplace' else 'PRS'}, "
            f"{_epsilon(column, mechanism, 1.0)}, |B| = {size}"
        )
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(alpha=0.25)
        axes.set(ylim=(0, BEST * 1.03), xlim=(0, column.submissions))
        _thousands(axes)
    for axes in panels[:, 0]:
        axes.set_ylabel("average score μ$_n$")
    for axes in panels[1]:
        axes.set_xlabel("submissions")
    figure.suptitle(
        f"Figure 2, {column.reading.title}: median, quartiles and single trials",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    return saved(figure, note)


def choices(rows: Sequence[dict[str, Any]], note: str) -> Files:
    """Plots how far each reading is from the paper's success ratios.

    Choosing and reporting trials are shown separately.
    """
    figure, (left, right) = new_figure(
        1, 2, figsize=(11, 0.42 * len(rows) + 1.6), layout="constrained", share_y=True
    )
    y = np.arange(len(rows))[::-1]
    for axes in (left, right):
        for place in y[::2]:
            axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", lw=0)
        axes.grid(axis="x", alpha=0.25)
    left.plot(
        [r["distance"]["choose"] for r in rows],
        y,
        "o",
        mfc="white",
        color=COLOURS["printed"],
        label="choosing trials",
    )
    left.plot(
        [r["distance"]["report"] for r in rows],
        y,
        "o",
        color=COLOURS["closest"],
        label="reporting trials",
    )
    left.axvline(rows[0]["distance"]["report"], color=COLOURS["closest"], lw=1, ls=":")
    left.set_yticks(y, [r["title"] for r in rows], fontsize=9)
    left.set(xlabel="mean distance from the paper's nine success ratios", xlim=(0, 1))
    left.legend(fontsize=8, frameon=False, loc="lower right")
    marks = ("laplace", "s"), ("prs", "o"), ("none", "D")
    for mechanism, mark in marks:
        right.plot(
            [r["success"][mechanism] for r in rows],
            y,
            mark,
            ms=6,
            label=WORDS[mechanism],
            alpha=0.85,
        )
        right.axvline(
            np.mean(list(paper.SUCCESS_RATIO[mechanism].values())),
            color=right.lines[-1].get_color(),
            lw=1,
            ls=":",
        )
    right.set(xlabel="mean success ratio over ε (dotted: the paper's)", xlim=(-0.03, 1.03))
    right.legend(fontsize=8, frameon=False, loc="lower left")
    return saved(figure, note)


def _epsilon(column: Column, mechanism: str, epsilon: float) -> str:
    true = true_epsilon(column.reading, mechanism, epsilon)
    nominal = "∞" if np.isinf(epsilon) else f"{epsilon:g}"
    return f"ε = {nominal}" + ("" if true <= epsilon else f" (truly {true:g})")


def _defined(quantity: dict[str, Any]) -> bool:
    """Returns whether a quantity is defined.

    A relative AUC is undefined where the run without privacy fails.
    """
    return not np.isnan(quantity.get("prediction", (0.0,))[0])


def _thousands(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
