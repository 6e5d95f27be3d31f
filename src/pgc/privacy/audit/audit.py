"""`pgc audit`: compares samples of what a mechanism really sends with what it claims.

Each row has two tests, with half of its error each: the exact event of the likelihood-ratio test
(`events.py`), and a search for any other event that tells two inputs apart (`search.py`), the
support test included. The bound of a row is the larger of the two.

    pass    the bound does not exceed the claim, and is at least 0.8 ε: the claim was tested
    FAIL    the bound exceeds the claim: with the stated confidence it does not hold
    weak    the bound says too little to confirm anything
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from pgc.errors import PgcError
from pgc.privacy.audit.bounds import POWER, STRONG, lower_epsilon, samples_for
from pgc.privacy.audit.events import Event, extremes, strongest
from pgc.privacy.audit.paths import RELEASE, SIMULATED, Source, paths_of, score_source, source
from pgc.privacy.audit.search import confirm, inputs, look
from pgc.randomise.budget import epsilon_of, nano_of
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.randomise.mechanisms.registry import (
    MECHANISMS,
    find_mechanism,
    make_mechanism,
    on_the_wire,
)
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.runs.progress import Progress
from pgc.wire import Query

SCORE = "score-bit"
FAMILY_ERROR = 0.01
"""The probability that any row of a table fails by chance."""
TELL_APART = 1.2
"""An ε that is this many times what is claimed is detected, with 99 % power."""


class Row(NamedTuple):
    """The result for one mechanism on one path."""

    mechanism: str
    path: str
    epsilon: float
    claim: float
    lower_bound: float
    samples: int
    """The number of samples of each of the two inputs."""
    verdict: Literal["pass", "FAIL", "weak"]
    found_by: str
    """Which of the two tests gave the bound."""


@dataclass(frozen=True)
class Subject:
    """What is audited: where its codes come from, and what is known about it."""

    name: str
    path: str
    epsilon: float
    source: Source
    event: Event | None
    candidates: Sequence[np.ndarray]
    promise: float = math.inf
    """The ε of its guarantee, which is what is audited where it is less than `epsilon`."""


def audit_mechanism(
    mechanism: Mechanism,
    path: str,
    *,
    claim: float | None = None,
    error: float = FAMILY_ERROR,
    power: float = POWER,
    seed: int | None = None,
) -> Row:
    """Audits one mechanism on one path: against another claim, or its own ε, or what its
    guarantee promises, if that is less.
    """
    return judge(
        subject(mechanism, path, np.random.default_rng(seed)), claim=claim, error=error, power=power
    )


def subject(
    mechanism: Mechanism, path: str, rng: np.random.Generator, name: str | None = None
) -> Subject:
    """Returns a mechanism on a path as a subject."""
    if path == RELEASE and on_the_wire(mechanism):
        mechanism = Query.of(mechanism).mechanism  # with an ε that can be charged for: whole nano-ε
    event, epsilon = strongest(mechanism), mechanism.epsilon
    return Subject(
        name or mechanism.name,
        path,
        epsilon,
        source(mechanism, path, rng),
        event,
        inputs(mechanism.dim, mechanism.clip, event, rng) + extremes(mechanism),
        mechanism.guarantee.epsilon,
    )


def score_subject(epsilon: float, path: str, rng: np.random.Generator) -> Subject:
    """Returns the noisy boolean on a path as a subject."""
    bit = ScoreBit(epsilon=epsilon_of(nano_of(epsilon)))
    yes, no = np.ones(1), -np.ones(1)
    event = Event(0, yes, no, lambda codes: codes[:, 0].astype(bool), bit.keep_threshold / WORD)
    return Subject(SCORE, path, epsilon, score_source(bit, path, rng), event, [yes, no])


def judge(it: Subject, *, claim: float | None, error: float, power: float = POWER) -> Row:
    """Runs both tests, and returns the row with the verdict."""
    epsilon = min(it.epsilon, it.promise)
    claim = epsilon if claim is None else claim
    likely = 0.5 if it.event is None else it.event.likely
    n = samples_for(epsilon, likely, min(epsilon / TELL_APART, claim * 0.999), error / 2, power)
    bounds = {}
    if it.event is not None:
        hits = [_count(it.source, it.event, g, n) for g in (it.event.one, it.event.other)]
        bounds["likelihood ratio"] = lower_epsilon(hits[0], n, hits[1], n, error / 2)
    number = 0 if it.event is None else it.event.number
    suspect = look(it.source, list(it.candidates), number, last_bits=it.path == RELEASE)
    bounds["search"] = confirm(it.source, suspect, number, n, error / 2)
    found_by, bound = max(bounds.items(), key=lambda item: item[1])
    verdict: Any = "FAIL" if bound > claim else "pass" if bound >= STRONG * epsilon else "weak"
    return Row(it.name, it.path, it.epsilon, claim, bound, n, verdict, found_by)


def _count(source: Source, event: Event, gradient: np.ndarray, n: int) -> int:
    return int(event.happened(source(gradient, event.number, n)).sum())


def audit(
    mechanism: str | None = None,
    epsilon: float = 1.0,
    *,
    path: str | None = None,
    claim: float | None = None,
    dim: int = 8,
    code_size: int | None = None,
    reduced_dim: int | None = None,
    lift: bool = False,
    seed: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Returns the rows for one mechanism by its name (or MODULE:CLASS of a user's own), or for all
    that claim an ε; on every path, or on one.

    The probability that any row exceeds its claim by chance is at most 1 %. With a `seed`, rows of
    the simulated path can be repeated; the release path always takes the bits of the operating
    system.
    """
    if seed is not None and seed < 0:
        raise PgcError(f"seed must be at least 0, not {seed}")
    options = {"code_size": code_size, "reduced_dim": reduced_dim}
    subjects: list[tuple[str, Mechanism | None, str]] = []
    for name in [*MECHANISMS, "index, lifted", SCORE] if mechanism is None else [mechanism]:
        if name == SCORE:
            subjects += [(name, None, p) for p in (SIMULATED, RELEASE)]
            continue
        kind, _, lifted = name.partition(", ")
        made = _make(kind, dim, epsilon, lift or bool(lifted), options)
        if mechanism is not None or made.guarantee.honest:
            subjects += [(name, made, p) for p in paths_of(made)]
    chosen = [
        s
        for s in subjects
        if path in (None, s[2]) and not (s[1] is not None and s[1].name == "none")
    ]
    if mechanism == "none":
        raise PgcError(
            "'none' claims no epsilon that could be broken: it sends the clipped gradient itself"
        )
    if not chosen:
        raise PgcError(
            f"{mechanism} has no {path} path: it has no exact form, and refuses to be released"
        )
    rows = []
    for done, (name, subjected, where) in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen), f"{name}, {where}")
        rng = np.random.default_rng(seed)
        it = (
            score_subject(epsilon, where, rng)
            if subjected is None
            else subject(subjected, where, rng, name)
        )
        rows.append(judge(it, claim=claim, error=FAMILY_ERROR / len(chosen)))
    if progress is not None:
        progress(len(chosen), len(chosen), "done")
    return rows


def _make(name: str, dim: int, epsilon: float, lift: bool, options: dict[str, Any]) -> Mechanism:
    if not (epsilon > 0 and np.isfinite(epsilon)):
        raise PgcError(f"an audit needs a positive finite epsilon, not {epsilon:g}")
    find_mechanism(name)
    return make_mechanism(name, dim=dim, epsilon=epsilon, clip=1.0, lift=lift, **options)
