"""What each figure and table means, in sentences written from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pgc.studies.reproduction import paper
from pgc.studies.reproduction.claims import buffering, judge
from pgc.studies.reproduction.paper import WORDS
from pgc.studies.reproduction.plan import TITLES, Column
from pgc.studies.wording import count, p_value

FEW = 3
"""Cells that do not agree are named if there are at most this many."""
OFTEN = 0.1
"""A control that succeeds in at least this share of trials is worth a warning."""
WIDE = 2.0
"""An interval is worth a remark if its ends differ by more than this factor."""


def against_paper(cells: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    """Compares one reading with the paper's eight private success ratios and with its controls."""
    mine = [c for c in cells if c["reading"] == key]
    private = [c for c in mine if c["mechanism"] != "none"]
    away = [c for c in private if c["success_ratio"]["consistent"] is False]
    comparable = all(c["success_ratio"]["consistent"] is not None for c in private)
    return {
        "cells": len(private),
        "consistent": len(private) - len(away) if comparable else None,
        "distance": float(
            np.mean([abs(c["success_ratio"]["ours"] - c["success_ratio"]["paper"]) for c in mine])
        ),
        "inconsistent": [f"{_cell(c)}: {_why(c)}" for c in away],
        "learn": sum(c["success_ratio"]["learns"] for c in private),
        "harmed": sum(c["success_ratio"]["harmed"] for c in private),
        "honest": all(c["true_epsilon"] <= c["epsilon"] for c in private),
    }


def success(cells: Sequence[dict[str, Any]]) -> str:
    """Says in words what the success ratios mean."""
    lines = []
    for key, title in TITLES.items():
        v = against_paper(cells, key)
        private = [
            c["success_ratio"] for c in cells if c["reading"] == key and c["mechanism"] != "none"
        ]
        low, high = min(q["ours"] for q in private), max(q["ours"] for q in private)
        text = (
            f"{_start(title)}: success ratios of {low:.2f} to {high:.2f}, where the paper has .80 "
            f"to 1.00; {v['learn']} of "
        )
        text += (
            f"{v['cells']} private cells succeed more often than the same noise around a zero "
            "gradient"
        )
        text += f" ({v['harmed']} succeed less often)" if v["harmed"] else ""
        text += (
            "."
            if v["consistent"] is None
            else f", and {v['consistent']} are consistent with the paper."
        )
        if 0 < len(v["inconsistent"]) <= FEW:
            text += f" Not consistent: {'; '.join(v['inconsistent'])}."
        lines.append(text)
    most = max(
        (c for c in cells if c["mechanism"] != "none"),
        key=lambda c: float(c["success_ratio"]["control"]),
    )
    if most["success_ratio"]["control"] >= OFTEN:
        lines.append(
            "Success is a weak measure: a control without any gradient succeeds in "
            f"{most['success_ratio']['control']:.0%} of trials ({_cell(most)}, "
            f"{TITLES[most['reading']]}), because a random walk "
            "in θ now and then balances ten poles in a row."
        )
    return "\n".join(lines)


def first_success(cells: Sequence[dict[str, Any]]) -> str:
    """Says in words what Table 1 means."""
    lines = []
    for key, title in TITLES.items():
        mine = [c["fst_median"] for c in cells if c["reading"] == key]
        never = sum(np.isinf(q["ours"]) for q in mine)
        seen = _agree([q["consistent"] for q in mine], "medians")
        seen += (
            [
                f"{never} of our {len(mine)} medians are infinite, because no more than half of "
                "the trials succeed"
            ]
            if never
            else []
        )
        lines += [f"{_start(title)}: {', and '.join(seen)}."] if seen else []
    spreads = [
        (_spread(c["fst_median"]["prediction"]), c) for c in cells if c["reading"] == "closest"
    ]
    factor, widest = max(spreads, key=lambda pair: pair[0])
    if factor > WIDE:
        low, high = widest["fst_median"]["prediction"]
        lines.append(
            f"A median of 20 trials says little: for {_cell(widest)} in the closest reading the "
            "next one would lie anywhere "
            f"between {count(low)} and {count(high)}."
        )
    return "\n".join(lines)


def default(rows: Sequence[dict[str, Any]]) -> str:
    """Says in words what pgc's default achieves on the paper's task."""
    one, without, theirs = rows[0], rows[-1], paper.FST_MEDIAN
    return (
        f"At ε = {one['epsilon']:g} pgc's default first succeeds after "
        f"{count(one['fst_median']['ours'])} reports (its control "
        f"after {count(one['fst_median']['control'])}), the paper's Laplace after "
        f"{count(theirs['laplace'][1.0])}, its PRS after "
        f"{count(theirs['prs'][1.0])}. Without privacy: {count(without['fst_median']['ours'])}, "
        "and the paper's "
        f"{count(theirs['none'][paper.INFINITY])}. A report of the default is made of "
        f"{one['env_steps_per_submission']:,.0f} environment steps: playing costs no ε."
    )


def area(cells: Sequence[dict[str, Any]]) -> str:
    """Says in words what Table 3 means."""
    lines = []
    for key, title in TITLES.items():
        mine = [c for c in cells if c["reading"] == key]
        base = next(c for c in mine if c["mechanism"] == "none")["auc"]["ours"]
        text = f"{_start(title)}: the run without privacy has an AUC of {base:.3f}"
        text += (
            ", and to be measured against a failure means little; read the absolute one"
            if base < 0.5
            else ""
        )
        agree = _agree(
            [c["relative_auc"]["consistent"] for c in mine if c["mechanism"] != "none"],
            "relative AUCs",
        )
        lines.append(", and ".join([text, *agree]) + ".")
    return "\n".join(lines)


def curves(column: Column) -> str:
    """Says in words what Figure 2 means."""
    parts = []
    for mechanism in ("laplace", "prs"):
        part = buffering(column, mechanism, helps=True)
        how = {
            "supported": "helps",
            "contradicted": "harms",
            "undecided": "makes no clear difference to",
        }[judge([part])]
        parts.append(f"buffering {how} {part.seen}")
    return f"{_start(column.reading.title)}, ε = 1: {'; '.join(parts)}."


def ratios(column: Column) -> str:
    """Says in words what Figure 3 means."""
    tenth = column.submissions // 10
    parts = []
    for mechanism in ("laplace", "prs"):
        early, late = (
            np.mean([np.mean(column.fst(mechanism, e) <= by) for e in paper.EPSILONS])
            for by in (tenth, column.submissions)
        )
        none = np.mean(
            [
                np.mean(column.fst(mechanism, e, control=True) <= column.submissions)
                for e in paper.EPSILONS
            ]
        )
        parts.append(
            f"{WORDS[mechanism]} has succeeded in {early:.0%} of trials by {tenth:,} submissions "
            f"and in {late:.0%} by the end "
            f"(its controls in {none:.0%}), over all ε"
        )
    return f"{_start(column.reading.title)}: {'; '.join(parts)}."


def choices(table: Sequence[dict[str, Any]], chosen: dict[str, Any]) -> str:
    """Says in words which readings matter."""
    single = [r for r in table[1:] if r["choice"] != "other readings"]
    decide = [r for r in single if r["decides"]]
    idle = [r for r in single if not r["decides"]]
    lines = [
        f"The choosing trials find “{chosen['title']}” nearest to the paper; on the reporting "
        "trials its distance is "
        f"{chosen['distance']['report']:.2f}."
    ]
    if decide:
        named = "; ".join(
            f"{r['title']} ({', '.join(WORDS[m] for m in r['decides'])})" for r in decide
        )
        lines.append(
            f"{len(decide)} of {len(single)} variations in one choice change how often a mechanism "
            f"succeeds: {named}."
        )
    if idle:
        lines.append(f"No such change was seen for {'; '.join(r['title'] for r in idle)}.")
    best = min(
        (r for r in table if r["epsilon_factor"] <= 1), key=lambda r: float(r["distance"]["choose"])
    )
    lines.append(
        f"The nearest reading whose ε is honest is “{best['title']}”, at a distance of "
        f"{best['distance']['report']:.2f}."
    )
    return "\n".join(lines)


def _agree(flags: Sequence[bool | None], what: str) -> list[str]:
    known = [flag for flag in flags if flag is not None]
    return (
        [f"{sum(known)} of the paper's {len(known)} {what} are such as 20 of our trials would give"]
        if known
        else []
    )


def _start(title: str) -> str:
    return title[0].upper() + title[1:]


def _cell(c: dict[str, Any]) -> str:
    return (
        "no privacy"
        if c["mechanism"] == "none"
        else f"{WORDS[c['mechanism']]} at ε = {c['epsilon']:g}"
    )


def _why(c: dict[str, Any]) -> str:
    q = c["success_ratio"]
    return (
        f"{q['successes']} of {q['trials']} against the paper's {q['paper']:.2f} (p "
        f"{p_value(q['p_paper'])})"
    )


def _spread(interval: tuple[float, float]) -> float:
    return float(interval[1] / interval[0]) if np.isfinite(interval[0]) else 0.0
