"""What crosses between the steps of a simulation, where nothing is written as bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

Array = Any
"""A NumPy or JAX array."""


class Delivery(NamedTuple):
    """Step 1: what an agent is handed. All of it is public.

    α is not in it, because the compiled engine reads θ in every turn, and α only when a submission
    begins.
    """

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


class Task(NamedTuple):
    """Step 1 for an agent that is simulated on the host: a request for one submission.

    All fields are public; the seed of the run, which a simulation keeps, is not among them.
    """

    trial: int
    submission: int
    """The index of the submission within its trial, starting at 0."""
    agent: int
    """The number of the agent that submits."""
    theta: Array
    basis: Array | None
    alpha: float


class HostSubmission(NamedTuple):
    """Step 3 on the host: what reaches the aggregator (`code`, `bit`), and what only a simulation's
    metrics may read (`score`, `ticks`).
    """

    code: Array  # what the mechanism drew; the aggregator decodes it
    bit: bool  # the noisy boolean
    score: float  # ζ
    ticks: int  # environment steps played
