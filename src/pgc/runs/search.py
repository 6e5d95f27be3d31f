"""Looks for a good policy in public, where episodes cost time but no ε: CMA-ES (Hansen 2016)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pgc.errors import PgcError, require

CANDIDATES = 16
"""Policies that are tried in one generation."""

Score = Callable[[np.ndarray, int], np.ndarray]
"""Takes policies (n, d) and the number of a generation; returns their scores (n,). All policies of
a generation play the same episodes, and each generation has new ones."""


def search(
    score: Score,
    theta: np.ndarray,
    basis: np.ndarray,
    *,
    spread: float,
    generations: int,
    seed: int,
) -> np.ndarray:
    """Returns the coordinates x (k,) of a policy θ + W x with a high score.

    The search begins at x = 0 and tries policies with the standard deviation `spread` around it; it
    adapts both from generation to generation. What it returns is the mean of its last distribution,
    which is better than the best policy that it tried where scores are noisy.
    """
    check(basis.shape[1])
    cma = require("cmaes", "train").CMA
    start = np.zeros(basis.shape[1])
    optimizer = cma(mean=start, sigma=spread, population_size=CANDIDATES, seed=seed)
    for generation in range(generations):
        tried = [optimizer.ask() for _ in range(CANDIDATES)]
        scores = score(theta + np.stack(tried) @ basis.T, generation)
        # the library minimises
        optimizer.tell([(x, -float(found)) for x, found in zip(tried, scores, strict=True)])
    return np.asarray(optimizer.mean)


def check(dim: int) -> None:
    """Refuses what `search` cannot do, before any of it is done."""
    require("cmaes", "train")
    if dim < 2:
        raise PgcError("a search needs at least two directions; use another --subspace")
