"""Where samples come from: the simulation, or the bytes that a device would send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pgc.errors import PgcError, require
from pgc.mechanisms.base import Mechanism
from pgc.mechanisms.score_bit import ScoreBit
from pgc.release.release import public_words, refuse_inexact, release, release_score
from pgc.wire.query import NUMBERS, Query

SIMULATED, RELEASE = "simulated", "release"


class Source(Protocol):
    """Makes codes (n, …) of a gradient, each with fresh secret bits."""

    def __call__(self, gradient: np.ndarray, seed: bytes, n: int) -> np.ndarray:
        """So many of them, with the public words of this seed."""


def source(mechanism: Mechanism, path: str) -> Source:
    """The samples of a mechanism on a path; refuses one that it does not have."""
    return simulated(mechanism) if path == SIMULATED else released(mechanism)


def paths_of(mechanism: Mechanism) -> tuple[str, ...]:
    """The paths that it has."""
    try:
        refuse_inexact(mechanism)
    except PgcError:
        return (SIMULATED,)
    return (SIMULATED, RELEASE)


def simulated(mechanism: Mechanism) -> Source:
    """As `pgc train` draws them: compiled, words from a JAX key, float32."""
    jax = require("jax", "train")

    def draw(gradient: Any, public: Any, secret: Any) -> Any:
        return mechanism.draw(mechanism.prepare(gradient, public), secret)

    many = jax.jit(jax.vmap(draw, in_axes=(None, None, 0)))
    key = jax.random.key(int.from_bytes(np.random.default_rng().bytes(4), "little"))

    def sample(gradient: np.ndarray, seed: bytes, n: int) -> np.ndarray:
        nonlocal key
        key, now = jax.random.split(key)
        secret = jax.random.bits(now, (n, mechanism.secret_words), "uint32")
        g, public = jax.numpy.asarray(gradient, "float32"), jax.numpy.asarray(public_words(seed, mechanism.public_words))
        return np.asarray(many(g, public, secret)).reshape(n, -1)

    return sample


def released(mechanism: Mechanism) -> Source:
    """As a device draws them, through the bytes of a report where the wire knows the mechanism."""
    refuse_inexact(mechanism)
    inside = getattr(mechanism, "inner", mechanism)
    query = Query.of(mechanism) if type(inside) in NUMBERS else None

    def one(gradient: np.ndarray, seed: bytes) -> Any:
        if query is None:
            return release(mechanism, gradient, seed)
        code, _ = query.decode_code(query.encode_code(release(query.mechanism, gradient, seed), None))
        return code

    return _repeated(one)


def score_source(score_bit: ScoreBit, path: str) -> Source:
    """The noisy boolean; the "gradient" is whether the score reached Θ."""
    if path == RELEASE:
        return _repeated(lambda gradient, seed: release_score(score_bit, bool(gradient[0] > 0)))
    rng = np.random.default_rng()
    return lambda gradient, seed, n: score_bit.draw(np.asarray(gradient[0] > 0), rng.integers(0, 2**32, (n, 1), np.uint32))


def _repeated(one: Callable[[np.ndarray, bytes], Any]) -> Source:
    return lambda gradient, seed, n: stacked([_or_nothing(one, gradient, seed) for _ in range(n)])


def _or_nothing(one: Callable[[np.ndarray, bytes], Any], gradient: np.ndarray, seed: bytes) -> Any:
    """A mechanism that fails on some gradient tells something by it: no report is one of the reports."""
    try:
        return one(gradient, seed)
    except PgcError:
        raise
    except Exception:
        return None


def stacked(codes: list[Any]) -> np.ndarray:
    """Codes as rows; where there is none, a row of NaN."""
    rows = [None if code is None else np.atleast_1d(np.asarray(code)) for code in codes]
    some = next((row for row in rows if row is not None), np.zeros(1))
    if all(row is not None for row in rows):
        return np.array(rows)
    return np.array([np.full(some.shape, np.nan) if row is None else row.astype(float) for row in rows])
