"""A test without knowledge of the mechanism: it looks for any event, and any two inputs, that
reveal more than is claimed.

It is the support test as well. It finds an output that one input can have and another cannot, a
report that is missing for some input, a number whose last bits depend on the input, and numbers
whose difference has no noise. What a small first sample suggests is then tested with a fresh one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pgc.privacy.audit.bounds import lower_epsilon
from pgc.privacy.audit.events import Event
from pgc.privacy.audit.paths import Source

PILOT = 600
"""The number of draws of each input in the first sample."""
PAIRS_REFINED, PAIRS_REFINED_FEW = 24, 6
"""How many candidate pairs are estimated again with more draws: where codes are continuous and
cheap to draw, and elsewhere."""
REFINED_DRAWS = 4000
"""The number of draws of each input when a pair is estimated again."""
BINS = 12
NOTHING = -1
"""Stands for a report that is missing."""
MIXER = np.random.default_rng(7).integers(1, 2**63, 4096, np.uint64) | np.uint64(1)
"""The multipliers that hash a row of small numbers to one number."""


class View(NamedTuple):
    """How features are computed from codes; the first sample decides it."""

    counted: bool
    """Whether codes are bits or small numbers, so that a whole row is one symbol."""
    whole: bool
    """Whether codes are integers, so that their residues are features."""
    low: np.ndarray
    high: np.ndarray
    """The limits to which each column is clipped."""
    directions: np.ndarray
    """The projections (columns, m) that are features."""
    edges: list[np.ndarray]
    """The edges of the bins of each projection."""
    last_bits: bool


class Found(NamedTuple):
    """The most telling event of the first sample."""

    one: np.ndarray
    other: np.ndarray
    view: View
    feature: int
    symbols: np.ndarray
    """The event is that the feature is one of these."""


def inputs(
    dim: int, clip: float, event: Event | None, rng: np.random.Generator
) -> list[np.ndarray]:
    """Returns gradients of all sorts and sizes, of which every pair is compared.

    `rng` draws six of them for this audit alone.
    """
    fixed, first, ones = np.random.default_rng(1), np.eye(dim)[0], np.ones(dim)
    mixed = np.where(np.arange(dim) == 0, np.nan, 1.0)
    infinite = np.where(first > 0, np.inf, 0.0)
    made = [0 * ones, np.nan * ones, infinite, -infinite, np.inf * ones, mixed]
    made += [
        sign * size * clip * shape
        for size in (1e30, 1e4, 1.0, 1e-4, 1e-30)
        for sign in (1, -1)
        for shape in (first, ones)
    ]
    made += [clip * fixed.standard_normal(dim) for _ in range(6)]
    for _ in range(6):  # other sizes, and other coordinates that are zero, in each audit
        some = rng.standard_normal(dim) * (rng.random(dim) < rng.uniform(0.2, 1.0))
        made += [clip * 10 ** rng.uniform(-10, 10) * some]
    return made if event is None else [*made, event.one, event.other]


def look(source: Source, candidates: list[np.ndarray], number: int, last_bits: bool) -> Found:
    """Returns the most telling event that samples of the candidates suggest.

    `last_bits` says whether the last bits of floating-point numbers may be used. They give away
    simulated Laplace noise, whose claim is for real arithmetic; nothing simulated leaves a device.
    """
    samples = [source(g, number, PILOT).astype(float) for g in candidates]
    width = max(s.shape[1] for s in samples)
    plain = _view([_wide(s, width) for s in samples], last_bits)
    seen = histograms([features(s, plain) for s in samples])
    pairs = combinations(zip(candidates, samples, seen, strict=True), 2)
    suggested = sorted(
        (s for one, other in pairs for s in _suggest(one, other, plain)), key=lambda s: -s[0]
    )

    def again(found: Found) -> Found:
        rows = [source(g, number, REFINED_DRAWS).astype(float) for g in found[:2]]
        one, other = zip(
            found[:2], rows, histograms([features(r, plain) for r in rows]), strict=True
        )
        return _suggest(one, other, plain)[0][1]

    # The best of hundreds of pairs is partly luck, so the first few are tried again with more
    # draws. Where codes are continuous, an event is learnt with some error, so more pairs are
    # tried, and their events are learnt again; but not where draws are expensive.
    thorough = not (plain.counted or last_bits)
    few = [found for _, found in suggested[: PAIRS_REFINED if thorough else PAIRS_REFINED_FEW]]
    if thorough:
        few += [again(found) for found in few]
    draws = REFINED_DRAWS if thorough else REFINED_DRAWS // 2
    return max(few, key=lambda found: float(_promise(*_hits(source, found, number, draws))))


class Histograms(NamedTuple):
    """How often each symbol of each feature was seen in a sample: one histogram after another."""

    symbols: np.ndarray
    counts: np.ndarray
    starts: np.ndarray
    """Where the histogram of each feature begins."""


def histograms(samples: Sequence[Sequence[np.ndarray]]) -> list[Histograms]:
    """Returns the histograms of each sample, from its features.

    All samples have the same symbols, in the same places.
    """
    symbols, counts = [], []
    for feature in zip(*samples, strict=True):
        found, where = np.unique(np.concatenate(feature), return_inverse=True)
        parts = np.split(where, np.cumsum([len(f) for f in feature])[:-1])
        symbols.append(found)
        counts.append([np.bincount(part, minlength=len(found)) for part in parts])
    starts = np.cumsum([0, *map(len, symbols)])[:-1]
    return [
        Histograms(np.concatenate(symbols), np.concatenate(mine), starts)
        for mine in zip(*counts, strict=True)
    ]


Sampled = tuple[np.ndarray, np.ndarray, Histograms]
"""A gradient, codes of it, and histograms of their features."""
TIMES = (1.0, 2.0, 4.0)
"""The ratios that are tried. For each, an event is made of the symbols that one gradient gave more
than this many times as often as the other (whose counts are raised by 1)."""


def _suggest(one: Sampled, other: Sampled, plain: View) -> list[tuple[float, Found]]:
    """Returns the events that two samples suggest, one that is more frequent for each of the two,
    and how much each promises.
    """
    ways = [(plain, one[2], other[2])]
    if not plain.counted:
        for learnt in _between(one[1], other[1], len(plain.low)):
            mine, theirs = histograms([features(rows, learnt)[:1] for rows in (one[1], other[1])])
            ways.append((learnt, mine, theirs))
    return [
        _best(one[0], other[0], ways),
        _best(other[0], one[0], [(view, theirs, mine) for view, mine, theirs in ways]),
    ]


def _best(
    one: np.ndarray, other: np.ndarray, ways: Sequence[tuple[View, Histograms, Histograms]]
) -> tuple[float, Found]:
    """Returns the most telling event among those of several views, and how much it promises."""
    best: tuple[float, Found] | None = None
    for view, mine, theirs in ways:
        chosen = [mine.counts > times * (theirs.counts + 1) for times in TIMES]
        hits, other_hits = (
            np.stack([np.add.reduceat(np.where(c, counts, 0), mine.starts) for c in chosen], axis=1)
            for counts in (mine.counts, theirs.counts)
        )
        promises = _promise(hits, other_hits)  # (features, TIMES)
        f, t = np.unravel_index(np.argmax(promises), promises.shape)
        if best is None or promises[f, t] > best[0]:
            its = slice(mine.starts[f], mine.starts[f + 1] if f + 1 < len(mine.starts) else None)
            best = (
                float(promises[f, t]),
                Found(one, other, view, int(f), mine.symbols[its][chosen[t][its]]),
            )
    assert best is not None  # there is always a feature
    return best


def _hits(source: Source, found: Found, number: int, n: int) -> tuple[int, int]:
    """Returns how often the event happens in fresh samples of the two inputs."""
    one, other = (
        int(np.isin(features(source(g, number, n), found.view)[found.feature], found.symbols).sum())
        for g in (found.one, found.other)
    )
    return one, other


def confirm(source: Source, found: Found, number: int, n: int, error: float) -> float:
    """Returns a lower bound on ε from counts of that event in fresh samples."""
    hits, other_hits = _hits(source, found, number, n)
    return lower_epsilon(hits, n, other_hits, n, error)


def features(codes: np.ndarray, view: View) -> list[np.ndarray]:
    """Returns features of the codes: each describes every code by one small number, its symbol.

    All rows that are missing or too short have one symbol for each length.
    """
    rows = _wide(codes.astype(float), len(view.low))
    there = (~np.isnan(rows)).sum(axis=1)
    short = there < rows.shape[1]
    rows = np.where(short[:, None], 0.0, rows)
    if view.counted:
        mixed = (rows.astype(np.uint64) * MIXER[: rows.shape[1]]).sum(
            axis=1, dtype=np.uint64
        ) >> np.uint64(1)
        made = [mixed.astype(np.int64)]
    else:
        values = np.clip(rows, view.low, view.high) @ view.directions
        made = [np.searchsorted(edge, values[:, i]) for i, edge in enumerate(view.edges)]
        for column in rows.T:
            if view.whole:
                made += [column.astype(np.int64) % modulus for modulus in (2, 3, 5, 16)]
            elif view.last_bits:
                made.append(_grid(column))
    return [np.where(short, NOTHING - there, f) for f in made]


def _grid(numbers: np.ndarray) -> np.ndarray:
    """Returns the exponent of floating-point numbers, and how fine a grid they lie on: adding a
    larger number leaves only a coarse grid.
    """
    bits = numbers.astype(np.float32).view(np.uint32)
    zeros = sum((bits % (1 << n) == 0).astype(np.int64) for n in range(1, 8))
    return np.asarray((bits >> 23 & 0xFF) * 8 + zeros, np.int64)


def _wide(rows: np.ndarray, width: int) -> np.ndarray:
    """Returns codes with `width` columns: missing ones are NaN, surplus ones are added
    to the last.
    """
    if rows.shape[1] > width:
        rows = np.concatenate(
            [rows[:, : width - 1], rows[:, width - 1 :].sum(axis=1, keepdims=True)], axis=1
        )
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


def _view(samples: list[np.ndarray], last_bits: bool) -> View:
    """Returns a view of every column, every difference of two neighbours, and the sum of all."""
    pooled = _there(np.concatenate(samples))
    whole = bool(np.all(pooled == np.round(pooled)))
    counted = whole and bool(np.all((pooled >= 0) & (pooled < 2**16)))  # bits, or vectors' numbers
    each = np.eye(pooled.shape[1])
    directions = np.concatenate([each, each[:, 1:] - each[:, :-1], np.ones((len(each), 1))], axis=1)
    low, high = (np.full(len(each), end) for end in (-np.inf, np.inf))
    return View(
        counted,
        whole,
        low,
        high,
        directions,
        [] if counted else _edges(pooled @ directions),
        last_bits,
    )


def _between(one: np.ndarray, other: np.ndarray, width: int) -> list[View]:
    """Returns the views that two linear classifiers learn from the two samples: one clips outliers,
    the other uses the covariance of the columns.
    """
    rows = [_there(_wide(s, width)) for s in (one, other)]
    if min(len(r) for r in rows) < 2:
        return []
    pooled = np.concatenate(rows)
    floor = 1e-12 * np.mean(pooled**2) + 1e-200
    low, high = np.quantile(pooled, [0.05, 0.95], axis=0)
    cut = [np.clip(r, low, high) for r in rows]
    robust = (cut[0].mean(axis=0) - cut[1].mean(axis=0)) / (pooled.var(axis=0) + floor)
    spread = sum(np.cov(r, rowvar=False).reshape(width, width) for r in rows)
    together = np.linalg.solve(
        spread + floor * np.eye(width), rows[0].mean(axis=0) - rows[1].mean(axis=0)
    )
    far = np.full(width, np.inf)
    return [
        View(
            False,
            False,
            low,
            high,
            robust[:, None],
            _edges(np.concatenate(cut) @ robust[:, None]),
            False,
        ),
        View(False, False, -far, far, together[:, None], _edges(pooled @ together[:, None]), False),
    ]


def _there(rows: np.ndarray) -> np.ndarray:
    """Returns the rows that are complete."""
    complete: np.ndarray = rows[~np.isnan(rows).any(axis=1)]
    return complete


def _edges(values: np.ndarray) -> list[np.ndarray]:
    return [
        np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in values.T
    ]


def _promise(hits: Any, other_hits: Any) -> Any:
    """Returns roughly the bound that these counts would give: good enough to choose by."""
    some, other = np.maximum(hits, 1), np.asarray(other_hits) + 1
    return np.where(
        np.asarray(hits) == 0, -np.inf, np.log(some / other) - 2 * np.sqrt(1 / some + 1 / other)
    )
