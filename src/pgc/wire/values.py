"""What crosses between the steps of a simulation, where nothing is written as bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any
"""A NumPy or JAX array."""


class Delivery(NamedTuple):
    """Step 1: what an agent is handed, except α, which goes beside it. All of it is public."""

    theta: Array  # θ (d,)
    basis: Array | None  # W (d, k) of the subspace to report in; None: the whole gradient


class Played(NamedTuple):
    """Step 2: what an agent knows after its episodes. All of it is private."""

    coordinates: Array  # z, the gradient in the delivery's subspace
    score: Array  # ζ
    ticks: Array  # environment steps played


class Submission(NamedTuple):
    """Step 3: what reaches the aggregator (`report`, `bit`), and what only a simulation's metrics
    may read (`score`, `ticks`).
    """

    report: Array  # g̃ (d,), decoded with the basis of its own delivery
    bit: Array  # the noisy boolean
    score: Array  # ζ
    ticks: Array  # environment steps played
