"""For each mechanism the two gradients that are easiest to tell apart, and the event that tells them apart best.

The public words are held fixed: a guarantee must hold for every value of them, so an adversary may choose. Each event is that of
the likelihood-ratio test, P(event | one) = e^ε · P(event | other) exactly, with ε what the mechanism claims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from pgc.randomise.exact.lattice import radius
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.duchi import Duchi
from pgc.randomise.mechanisms.index_code import IndexCode
from pgc.randomise.mechanisms.laplace import AdditiveLaplace
from pgc.randomise.mechanisms.lift import NormLift
from pgc.randomise.mechanisms.piecewise import Piecewise
from pgc.randomise.mechanisms.prs import ProjectedRandomSign
from pgc.randomise.mechanisms.randomized_response import WORD
from pgc.randomise.mechanisms.two_sides import TwoSides
from pgc.randomise.release import public_words
from pgc.wire.offer import public_seed

Codes = np.ndarray
"""(n, …): as many codes."""


@dataclass(frozen=True)
class Event:
    """What to look for."""

    number: int
    """Of the offer that asks, which decides the public words."""
    one: np.ndarray
    other: np.ndarray
    happened: Callable[[Codes], np.ndarray]
    """Which of many codes are in the event."""
    likely: float
    """Its probability under `one`, as claimed."""


def public(mechanism: Mechanism, number: int) -> np.ndarray:
    """Its public words for the offer of this number."""
    return public_words(public_seed(number), mechanism.public_words)


@singledispatch
def strongest(mechanism: Mechanism) -> Event | None:
    """The event of the likelihood-ratio test; None for a mechanism that nobody has worked it out for (`search.py` looks for one).

    Register one for a mechanism of your own: `@strongest.register`, as below.
    """
    return None


@strongest.register
def _(mechanism: AdditiveLaplace) -> Event:
    """Opposite ends of the clip; beyond the one end. Where the claim is not honest, two coordinates are enough to show it."""
    corner = np.zeros(mechanism.dim)
    corner[: 1 if mechanism.spread <= 1 else 2] = 1e6 * mechanism.clip
    one = np.asarray(mechanism.prepare(corner, np.zeros(0, np.uint32)))
    edge = one[one > 0]

    def beyond(codes: Codes) -> np.ndarray:
        lattice = np.issubdtype(codes.dtype, np.integer)  # as it is released: n of `one` is N
        far: Any = radius(mechanism.epsilon) if lattice else edge * (1 - 1e-6)
        return np.asarray((codes[:, : len(edge)] >= far).all(axis=1))

    return Event(0, one, -one, beyond, 0.5 ** len(edge))


@strongest.register
def _(mechanism: ProjectedRandomSign) -> Event:
    """Gradients that saturate every bit; all bits set."""
    for number in range(1000):
        m = mechanism.projection(public(mechanism, number), np.float64)
        if np.linalg.matrix_rank(m) == mechanism.reduced_dim:
            break
    one = np.linalg.pinv(m) @ np.full(mechanism.reduced_dim, 4 * mechanism.clip)
    likely = (mechanism.highest_threshold / WORD) ** mechanism.reduced_dim
    return Event(number, one, -one, lambda codes: np.asarray(codes.all(axis=1)), likely)


@strongest.register
def _(mechanism: Duchi) -> Event:
    """Opposite directions; the side of the one."""
    return _on_one_side(mechanism, mechanism)


@strongest.register
def _(mechanism: IndexCode) -> Event:
    """Opposite directions; a vector near the one."""
    return _near_one(mechanism, mechanism)


@strongest.register
def _(mechanism: NormLift) -> Event | None:
    """Opposite gradients at the clip: lifted, they are opposite directions."""
    inner = mechanism.inner
    if isinstance(inner, Duchi):
        return _on_one_side(mechanism, inner)
    return _near_one(mechanism, inner) if isinstance(inner, IndexCode) else None


@strongest.register
def _(mechanism: TwoSides) -> Event:
    """Opposite directions; V on the side of the one."""
    one = _direction(mechanism)

    def on_side(codes: Codes) -> np.ndarray:
        return np.asarray(codes @ (one / np.linalg.norm(one)) >= mechanism.side.gamma)

    return Event(0, one, -one, on_side, mechanism.side.p)


@strongest.register
def _(mechanism: Piecewise) -> Event:
    """Every coordinate at opposite ends; each sampled number in the interval of the one."""
    one = np.full(mechanism.dim, mechanism.clip)

    def in_interval(codes: Codes) -> np.ndarray:
        return np.asarray((codes >= 1).all(axis=1))

    return Event(0, one, -one, in_interval, mechanism.centre**mechanism.sampled)


def extremes(mechanism: Mechanism) -> list[np.ndarray]:
    """Gradients with the fewest and the most near vectors of `index`: there must be none, but that is for the audit to see."""
    inner = mechanism.inner if isinstance(mechanism, NormLift) else mechanism
    if not isinstance(inner, IndexCode):
        return []
    tried = mechanism.clip * np.random.default_rng(2).standard_normal((300, mechanism.dim))
    words = public(mechanism, 0)
    sizes = [int(np.asarray(mechanism.prepare(g, words)).sum()) for g in tried]
    return [tried[int(np.argmin(sizes))], tried[int(np.argmax(sizes))]]


def _direction(mechanism: Mechanism) -> np.ndarray:
    return mechanism.clip * np.random.default_rng(0).standard_normal(mechanism.dim) * 10


def _on_one_side(mechanism: Mechanism, inner: Duchi) -> Event:
    one = _direction(mechanism)
    side = bool(np.asarray(mechanism.prepare(one, public(mechanism, 0)))[0] == inner.keep)
    return Event(0, one, -one, lambda codes: codes[:, 0] == side, inner.keep / WORD)


def _near_one(mechanism: Mechanism, inner: IndexCode) -> Event:
    one = _direction(mechanism)
    near, far = (np.asarray(mechanism.prepare(g, public(mechanism, 0))) for g in (one, -one))
    wanted = near & ~far  # all of `near`, where at most half of the vectors are near
    return Event(0, one, -one, lambda codes: wanted[codes.ravel().astype(int)], inner.inside / WORD * wanted.sum() / near.sum())
