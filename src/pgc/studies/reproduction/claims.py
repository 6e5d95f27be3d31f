"""The claims that the paper makes in words, each tested on our trials and on the paper's tables.

A claim may have several parts. It is *supported* when every part is seen with one-sided p < .05,
*contradicted* when the opposite of some part is seen (with p < .05 divided by the number of parts),
and *undecided* otherwise. The paper gives no single trials, so for the paper we say only whether
the claim holds in its tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgc.runs import metrics
from pgc.studies import inference
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.paper import WORDS
from pgc.studies.reproduction.plan import Column
from pgc.studies.wording import count

LEVEL = 0.05
EARLY = 0.1
"""The "early stage" is this share of the submissions."""


@dataclass(frozen=True)
class Part:
    """One comparison: what was seen, and the one-sided p for it and for its opposite."""

    seen: str
    p: float | None
    """None if the part denies something; it then counts as seen unless its opposite is seen."""
    opposite: float


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how to test it."""

    words: str
    where: str
    in_tables: bool | None
    """Whether the paper's own tables say so; None where it shows no numbers."""
    remark: str
    """What the paper's tables say about the claim."""
    look: Callable[[Column], Sequence[Part]]


def judge(parts: Sequence[Part]) -> str:
    """Returns the verdict on a claim: supported, contradicted or undecided."""
    if any(part.opposite < LEVEL / len(parts) for part in parts):
        return "contradicted"
    seen = all(part.opposite >= LEVEL if part.p is None else part.p < LEVEL for part in parts)
    return "supported" if seen else "undecided"


def verdicts(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Returns every claim, with a verdict for each reading."""
    rows = []
    for claim in CLAIMS:
        judged = {}
        for column in columns:
            parts = claim.look(column)
            judged[column.reading.key] = {
                "verdict": judge(parts),
                "parts": [vars(part) for part in parts],
            }
        rows.append(
            {
                **{k: getattr(claim, k) for k in ("words", "where", "in_tables", "remark")},
                "verdicts": judged,
            }
        )
    return rows


def _faster(column: Column, a: tuple[str, float], b: tuple[str, float]) -> Part:
    """Tests whether `a` succeeds earlier than `b` (Mann-Whitney); no success counts as latest."""
    first, second = column.fst(*a), column.fst(*b)
    medians = [count(float(metrics.median(fst))) for fst in (first, second)]
    seen = f"{_name(*a)} against {_name(*b)}: median FST {medians[0]} and {medians[1]}"
    return Part(seen, inference.smaller(first, second), inference.smaller(second, first))


def _not_faster(column: Column, a: tuple[str, float], b: tuple[str, float]) -> Part:
    part = _faster(column, a, b)
    assert part.p is not None
    return Part(part.seen, None, part.p)


def _larger_area(column: Column, a: tuple[str, float], b: tuple[str, float]) -> Part:
    """Tests whether `a` has a larger AUC than `b`, compared trial by trial."""
    first, second = (inference.areas(column.fst(*cell), column.submissions) for cell in (a, b))
    seen = f"{_name(*a)} against {_name(*b)}: AUC {first.mean():.3f} and {second.mean():.3f}"
    return Part(seen, inference.paired(first, second), inference.paired(second, first))


def _more_often(column: Column, a: tuple[str, float], b: tuple[str, float]) -> Part:
    counts = [inference.successes(column.fst(*cell), column.submissions) for cell in (a, b)]
    trials = [len(column.fst(*cell)) for cell in (a, b)]
    seen = (
        f"{_name(*a)} against {_name(*b)}: {counts[0]} of {trials[0]} and {counts[1]} of "
        f"{trials[1]}"
    )
    first, second = zip(counts, trials, strict=True)
    return Part(
        seen,
        inference.fisher(*first, *second, "greater"),
        inference.fisher(*second, *first, "greater"),
    )


def _more_over_all(column: Column, share: float, first: str, other: str) -> Part:
    """Tests whether `first` has more successes than `other` over all ε, compared trial by trial.

    Only successes within this share of the submissions count.
    """
    by = int(share * column.submissions)
    mine, theirs = (
        np.sum([column.fst(m, e) <= by for e in paper.EPSILONS], axis=0) for m in (first, other)
    )
    of = len(paper.EPSILONS) * len(mine)
    seen = (
        f"by {by:,} submissions, all ε: {WORDS[first]} {mine.sum()} of {of}, {WORDS[other]} "
        f"{theirs.sum()}"
    )
    return Part(seen, inference.paired(mine, theirs), inference.paired(theirs, mine))


def _falls(column: Column, mechanism: str) -> Part:
    groups = [column.fst(mechanism, e) for e in paper.EPSILONS]
    tau, p = inference.falling(groups)
    medians = " → ".join(count(float(metrics.median(g))) for g in groups)
    return Part(
        f"{WORDS[mechanism]} median FST {medians} (τ = {tau:.2f})",
        p,
        inference.falling(groups[::-1])[1],
    )


def _succeeds_more(column: Column, mechanism: str) -> Part:
    groups = [(column.fst(mechanism, e) > column.submissions).astype(float) for e in paper.EPSILONS]
    ratios = " → ".join(f"{1 - g.mean():.2f}" for g in groups)
    return Part(
        f"{WORDS[mechanism]} success ratio {ratios}",
        inference.falling(groups)[1],
        inference.falling(groups[::-1])[1],
    )


def buffering(column: Column, mechanism: str, *, helps: bool) -> Part:
    """Tests whether |B| = 100 gives a higher mean score over the run than |B| = 1, at ε = 1.

    Without `helps` it tests whether the score is lower.
    """
    with_it, without = (
        np.nanmean(column(mechanism, 1.0, buffer_size=size).curve, axis=1) for size in (100, 1)
    )
    # what the test judges by, so that the sentence cannot contradict its verdict
    difference = with_it[:, None] - without
    higher = np.mean(difference > 0) + 0.5 * np.mean(difference == 0)
    seen = (
        f"{WORDS[mechanism]} (a trial with |B| = 100 has a higher mean score over the run than one "
        f"with |B| = 1 in {higher:.0%} of all pairs)"
    )
    better, worse = inference.smaller(without, with_it), inference.smaller(with_it, without)
    return Part(seen, better, worse) if helps else Part(seen, worse, better)


def _always(column: Column) -> Part:
    fst = column.fst("none", paper.INFINITY)
    k, n = inference.successes(fst, column.submissions), len(fst)
    return Part(
        f"{k} of {n}",
        None if k == n else 1.0,
        inference.fisher(paper.TRIALS, paper.TRIALS, k, n, "greater"),
    )


CLAIMS = (
    Claim(
        "Without privacy, all trials succeed.", "Table 2", True, "20 of 20.",
        lambda c: [_always(c)],
    ),
    Claim(
        "With Laplace, the first success comes earlier as ε grows.", "Table 1", False,
        "Its median rises from 18,377 at ε = 1 to 20,238.5 at 2.",
        lambda c: [_falls(c, "laplace")],
    ),
    Claim(
        "With larger ε, both reach a high success ratio with fewer submissions.", "Figure 3", False,
        "In Table 1 PRS needs more at ε = 10 (11,217.5) than at 2 (7,549) and 5 (2,656.5).",
        lambda c: [_falls(c, m) for m in ("laplace", "prs")],
    ),
    Claim(
        "Larger ε tends to succeed more often, with both.", "Table 2", True,
        "PRS falls from .95 at ε = 2 to .90 at 5 and 10, by one trial of 20.",
        lambda c: [_succeeds_more(c, m) for m in ("laplace", "prs")],
    ),
    Claim(
        "PRS is more efficient than Laplace at ε = 2 and 5, and not at 10.", "Table 1", True, "",
        lambda c: [_faster(c, ("prs", e), ("laplace", e)) for e in (2.0, 5.0)]
        + [_not_faster(c, ("prs", 10.0), ("laplace", 10.0))],
    ),
    Claim(
        "PRS succeeds more often at ε = 1 and 2, Laplace at 5 and 10.", "Table 2", True,
        "By one or two trials of 20 in each cell (Fisher's p ≥ .48).",
        lambda c: [_more_often(c, ("prs", e), ("laplace", e)) for e in (1.0, 2.0)]
        + [_more_often(c, ("laplace", e), ("prs", e)) for e in (5.0, 10.0)],
    ),
    Claim(
        "PRS has more successes early, Laplace more by the end.", "Figure 3", False,
        "By the end, Table 2 has Laplace ahead at ε = 5 and 10 only: 74 to 72 of 80 over all ε.",
        lambda c: [
            _more_over_all(c, EARLY, "prs", "laplace"), _more_over_all(c, 1.0, "laplace", "prs")
        ],
    ),
    Claim(
        "Buffering helps PRS.", "Figure 2", None, "",
        lambda c: [buffering(c, "prs", helps=True)],
    ),
    Claim(
        "Buffering disturbs Laplace.", "Figure 2", None, "",
        lambda c: [buffering(c, "laplace", helps=False)],
    ),
    Claim(
        "Laplace's AUC grows with ε.", "Table 3", True, "",
        lambda c: [
            _larger_area(c, ("laplace", b), ("laplace", a))
            for a, b in itertools.pairwise(paper.EPSILONS)
        ],
    ),
    Claim(
        "PRS has its best AUC at ε = 2.", "Table 3", True, "",
        lambda c: [_larger_area(c, ("prs", 2.0), ("prs", e)) for e in (1.0, 5.0, 10.0)],
    ),
    Claim(
        "PRS may be the better choice for ε < 10; otherwise Laplace seems more promising.",
        "Tables 1 to 3", False,
        "By its own AUC, Laplace is ahead at ε = 1 (.673 to .660) and 5 (.909 to .835).",
        lambda c: [_larger_area(c, ("prs", e), ("laplace", e)) for e in (1.0, 2.0, 5.0)]
        + [_larger_area(c, ("laplace", 10.0), ("prs", 10.0))],
    ),
)  # fmt: skip


def _name(mechanism: str, epsilon: float) -> str:
    return f"{WORDS[mechanism]} at ε = {epsilon:g}"
