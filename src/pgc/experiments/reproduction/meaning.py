"""What each figure and table means, in sentences written from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pgc.experiments.reproduction import paper
from pgc.experiments.reproduction.claims import WORDS
from pgc.experiments.reproduction.plan import COLUMNS, FIGURE_2, Column
from pgc.experiments.reproduction.wording import count, p_value


def verdict(cells: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    """How one reading fares against the paper's eight private success ratios, and against its controls."""
    private = [c for c in cells if c["reading"] == key and c["mechanism"] != "none"]
    away = [c for c in private if c["success_ratio"]["consistent"] is False]
    comparable = all(c["success_ratio"]["consistent"] is not None for c in private)
    return {
        "cells": len(private),
        "consistent": len(private) - len(away) if comparable else None,
        "distance": float(np.mean([abs(c["success_ratio"]["ours"] - c["success_ratio"]["paper"]) for c in private])),
        "inconsistent": [f"{_cell(c)}: {_why(c)}" for c in away],
        "learn": sum(c["success_ratio"]["learns"] for c in private),
        "honest": all(c["true_epsilon"] <= c["epsilon"] for c in private),
    }


def success(cells: Sequence[dict[str, Any]]) -> str:
    """The main result."""
    parts = []
    for key, title in TITLES.items():
        v = verdict(cells, key)
        private = [c["success_ratio"] for c in cells if c["reading"] == key and c["mechanism"] != "none"]
        low, high = min(q["ours"] for q in private), max(q["ours"] for q in private)
        text = f"{_start(title)}: success ratios of {low:.2f} to {high:.2f}, where the paper has .80 to 1.00; {v['learn']} of "
        text += f"{v['cells']} private cells succeed more often than the same noise around a zero gradient"
        text += "." if v["consistent"] is None else f", and {v['consistent']} are consistent with the paper."
        if 0 < len(v["inconsistent"]) <= FEW:
            text += f" Not consistent: {'; '.join(v['inconsistent'])}."
        parts.append(text)
    worst = max((c for c in cells if c["mechanism"] != "none"), key=lambda c: float(c["success_ratio"]["control"]))
    parts.append(
        "Success is a weak measure: a control without any gradient succeeds in up to "
        f"{worst['success_ratio']['control']:.0%} of trials ({_cell(worst)}, {TITLES[worst['reading']]}), because a random walk "
        "in θ now and then balances ten poles in a row."
    )
    return "\n".join(parts)


def first_success(cells: Sequence[dict[str, Any]]) -> str:
    """Table 1."""
    parts = []
    for key, title in TITLES.items():
        mine = [c for c in cells if c["reading"] == key]
        agree = [c["fst_median"]["consistent"] for c in mine]
        never = sum(np.isinf(c["fst_median"]["ours"]) for c in mine)
        seen = (
            []
            if None in agree
            else [f"{sum(agree)} of {len(mine)} of the paper's medians are such as 20 of our trials would give"]
        )
        seen += [f"{never} of our {len(mine)} are infinite because fewer than half of the trials succeed"] if never else []
        parts += [f"{_start(title)}: {', and '.join(seen)}."] if seen else []
    widest = max((c for c in cells if c["reading"] == "closest"), key=lambda c: _ratio(c["fst_median"]["prediction"]))
    low, high = widest["fst_median"]["prediction"]
    parts.append(
        f"A median of 20 trials says little: for {_cell(widest)} in the closest reading it would lie anywhere between "
        f"{count(low)} and {count(high)}."
    )
    return "\n".join(parts)


def area(cells: Sequence[dict[str, Any]]) -> str:
    """Table 3."""
    parts = []
    for key, title in TITLES.items():
        base = next(c for c in cells if c["reading"] == key and c["mechanism"] == "none")["auc"]["ours"]
        agree = [c["relative_auc"]["consistent"] for c in cells if c["reading"] == key and c["mechanism"] != "none"]
        text = f"{_start(title)}, the run without privacy has an AUC of {base:.3f}"
        text += ", so that to be measured against it means little; read the absolute one" if base < 0.5 else ""
        text += (
            ""
            if None in agree
            else f", and {sum(agree)} of the paper's {len(agree)} relative AUCs are such as 20 trials would give"
        )
        parts.append(text + ".")
    return "\n".join(parts)


def curves(column: Column) -> str:
    """Figure 2."""
    means = {(m, b): float(np.nanmean(column(m, 1.0, buffer_size=b).curve)) for m, b in FIGURE_2}
    parts = []
    for mechanism in ("laplace", "prs"):
        with_it, without = means[mechanism, 100], means[mechanism, 1]
        how = "raises" if with_it > 1.1 * without else "lowers" if with_it < without / 1.1 else "hardly changes"
        parts.append(f"buffering {how} {WORDS[mechanism]}'s mean score over the run, {without:.0f} to {with_it:.0f}")
    return f"{_start(column.reading.title)}, ε = 1: {'; '.join(parts)}."


def ratios(column: Column) -> str:
    """Figure 3."""
    tenth = column.submissions // 10
    parts = []
    for mechanism in ("laplace", "prs"):
        early = np.mean([np.mean(column.fst(mechanism, e) <= tenth) for e in paper.EPSILONS])
        late = np.mean([np.mean(column.fst(mechanism, e) <= column.submissions) for e in paper.EPSILONS])
        none = np.mean([np.mean(column.fst(mechanism, e, control=True) <= column.submissions) for e in paper.EPSILONS])
        parts.append(
            f"{WORDS[mechanism]} has succeeded in {early:.0%} of trials by {tenth:,} submissions and in {late:.0%} by the end "
            f"(its controls in {none:.0%}), over all ε"
        )
    return f"{_start(column.reading.title)}: {'; '.join(parts)}."


def choices(table: Sequence[dict[str, Any]], chosen: dict[str, Any]) -> str:
    """The readings."""
    single = [r for r in table[1:] if r["choice"] != "other readings"]
    decide = [r for r in single if r["decides"]]
    idle = [r for r in single if not r["decides"]]
    honest = [r for r in table if r["epsilon_factor"] <= 1]
    best = min(honest, key=lambda r: float(r["distance"]["choose"])) if honest else None
    text = f"The choosing trials find “{chosen['title']}” nearest to the paper; on the reporting trials its distance is "
    text += f"{chosen['distance']['report']:.2f}. "
    text += f"{len(decide)} of {len(single)} variations in one choice change how often a mechanism succeeds (p < .01): "
    text += "; ".join(f"{r['title']} ({', '.join(WORDS[m] for m in r['decides'])})" for r in decide) + ". "
    if idle:
        text += f"No such change was seen for {'; '.join(r['title'] for r in idle)}. "
    if best is not None:
        text += f"The nearest reading whose ε is honest is “{best['title']}”, at a distance of {best['distance']['report']:.2f}."
    return text


TITLES = {reading.key: reading.title for reading in COLUMNS}
FEW = 3
"""Cells that do not agree are named if there are no more than these."""


def _start(title: str) -> str:
    return title[0].upper() + title[1:]


def _cell(c: dict[str, Any]) -> str:
    return "no privacy" if c["mechanism"] == "none" else f"{WORDS[c['mechanism']]} at ε = {c['epsilon']:g}"


def _why(c: dict[str, Any]) -> str:
    q = c["success_ratio"]
    return f"{q['successes']} of {q['trials']} against the paper's {q['paper']:.2f} (p {p_value(q['p_paper'])})"


def _ratio(interval: tuple[float, float]) -> float:
    return float(interval[1] / interval[0]) if np.isfinite(interval[0]) else 0.0
