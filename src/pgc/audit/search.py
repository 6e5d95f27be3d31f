"""A test without knowledge of the mechanism: look for any event, and any two inputs, that betray more than is claimed.

This is the support test as well: an output that one input can have and another cannot, a report that is missing for some input,
a number whose last bits know where it came from. What a small first sample suggests is then tested with a fresh one.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np

from pgc.audit.bounds import lower_epsilon
from pgc.audit.events import Event
from pgc.audit.paths import Source

PILOT = 600
"""Draws of each input in the first sample."""
BINS = 12
NOTHING = -1
"""Stands for a report that is missing."""


class Found(NamedTuple):
    """The most telling event of the first sample."""

    one: np.ndarray
    other: np.ndarray
    feature: int
    symbols: np.ndarray
    """The event: the feature is one of these."""
    edges: list[np.ndarray]
    last_bits: bool


def inputs(dim: int, clip: float, event: Event | None) -> list[np.ndarray]:
    """Gradients of all sorts: every pair of them is compared."""
    rng, first, ones = np.random.default_rng(1), np.eye(dim)[0], np.ones(dim)
    made = [0 * ones, np.nan * ones, 1e9 * clip * first, -1e9 * clip * first, 1e9 * clip * ones, -1e9 * clip * ones, 1e-40 * ones]
    made += [clip * rng.standard_normal(dim) for _ in range(6)]
    return made if event is None else [*made, event.one, event.other]


def features(codes: np.ndarray, edges: list[np.ndarray], last_bits: bool) -> list[np.ndarray]:
    """Codes as small numbers, in several ways; `edges` are the bins of each column, for numbers that are not few."""
    missing = np.isnan(codes.astype(float)).any(axis=1)
    rows = np.where(missing[:, None], 0, codes)
    if not edges:  # bits, or the number of a vector
        numbers = rows.astype(np.int64) @ (1 << np.arange(rows.shape[1], dtype=np.int64) % 62)
        return [np.where(missing, NOTHING, numbers)]
    made = []
    for column, edge in enumerate(edges):
        values = rows[:, column]
        made.append(np.searchsorted(edge, values))
        if np.issubdtype(codes.dtype, np.integer):
            made += [values % modulus for modulus in (2, 3, 4, 5, 7, 16)]
        elif last_bits:
            made.append(np.ascontiguousarray(values, np.float32).view(np.uint32) & 7)
    return [np.where(missing, NOTHING, f) for f in made]


def look(source: Source, candidates: list[np.ndarray], seed: bytes, last_bits: bool) -> Found:
    """The first sample, and what it suggests. `last_bits`: whether those of floating-point numbers may be used.

    They betray simulated Laplace noise; its claim is one for real arithmetic, and nothing simulated leaves a device.
    """
    samples = [source(g, seed, PILOT) for g in candidates]
    pooled = np.concatenate(samples).astype(float)
    there = pooled[~np.isnan(pooled)]
    counted = bool(np.all(there == np.round(there)) and np.all((there >= 0) & (there < 2**16)))  # bits, or a vector's number
    quantiles = np.linspace(0, 1, BINS + 1)[1:-1]
    edges = [] if counted else [np.unique(np.nanquantile(pooled[:, c], quantiles)) for c in range(min(2, pooled.shape[1]))]
    seen = [features(s, edges, last_bits) for s in samples]
    best, found = -1.0, None
    for i, j in permutations(range(len(candidates)), 2):
        for f, (mine, theirs) in enumerate(zip(seen[i], seen[j], strict=True)):
            symbols, where = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
            counts = [np.bincount(w, minlength=len(symbols)) for w in np.split(where, [PILOT])]
            for times in (1.0, 2.0, 4.0):
                chosen = counts[0] > times * (counts[1] + 1)
                hits = [int(c[chosen].sum()) for c in counts]
                bound = lower_epsilon(hits[0], PILOT, hits[1], PILOT, 0.05)
                if bound > best:
                    best, found = bound, Found(candidates[i], candidates[j], f, symbols[chosen], edges, last_bits)
    assert found is not None
    return found


def confirm(source: Source, found: Found, seed: bytes, n: int, error: float) -> float:
    """A lower bound on ε from a fresh sample of that event."""
    hits = [
        int(np.isin(features(source(g, seed, n), found.edges, found.last_bits)[found.feature], found.symbols).sum())
        for g in (found.one, found.other)
    ]
    return lower_epsilon(hits[0], n, hits[1], n, error)
