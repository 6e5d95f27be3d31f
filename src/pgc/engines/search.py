"""Looks for a good policy in public, where episodes cost time but no ε: CMA-ES (Hansen 2016)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pgc.errors import PgcError, require

CANDIDATES = 16
"""Policies that are tried in one generation."""

Score = Callable[[np.ndarray, int], np.ndarray]
"""Returns the scores (n,) of policies (n, d), all in the same episodes; these are new in each
generation, whose number is given as well."""


def search(
    score: Score,
    theta: np.ndarray,
    basis: np.ndarray,
    *,
    spread: float,
    generations: int,
    seed: int,
    after_each: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Returns the coordinates x (k,) of a policy θ + W x with a high score.

    The search begins at x = 0 and tries policies with the standard deviation `spread` around it; it
    adapts both from generation to generation. What it returns is the mean of its last distribution,
    which is better than the best policy that it tried where scores are noisy.
    """
    dim = basis.shape[1]
    if dim < 2:
        raise PgcError("a search needs at least two directions; use another --subspace")
    cma = require("cmaes", "train").CMA
    optimizer = cma(mean=np.zeros(dim), sigma=spread, population_size=CANDIDATES, seed=seed)
    for generation in range(generations):
        tried = [optimizer.ask() for _ in range(CANDIDATES)]
        scores = score(theta + np.stack(tried) @ basis.T, generation)
        # the library minimises
        optimizer.tell([(x, -float(found)) for x, found in zip(tried, scores, strict=True)])
        after_each()
    return np.asarray(optimizer.mean)
