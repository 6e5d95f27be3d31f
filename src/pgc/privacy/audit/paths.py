"""Where samples come from: the simulation, or the bytes that a device would send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pgc.errors import PgcError, require
from pgc.privacy.audit.events import public
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.duchi import Duchi
from pgc.randomise.mechanisms.registry import on_the_wire
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.release import release
from pgc.randomise.report import draw_report
from pgc.wire import Offer, Query, Report
from pgc.wire.offer import public_seed

SIMULATED, RELEASE = "simulated", "release"
TOGETHER = 2048
"""The number of simulated codes that are drawn at once. It is fixed, so that one compiled program
serves any number of codes."""


class Source(Protocol):
    """Makes codes (n, …) of a gradient, each with fresh secret bits."""

    def __call__(self, gradient: np.ndarray, number: int, n: int) -> np.ndarray:
        """Returns n codes of a gradient, for the offer of this number."""


def source(mechanism: Mechanism, path: str, rng: np.random.Generator) -> Source:
    """Returns the source of a mechanism's codes on a path. Raises an error for a path that the
    mechanism does not have.

    `rng` seeds simulated draws. Released ones take the bits of the operating system, and nothing
    can replace these.
    """
    return simulated(mechanism, rng) if path == SIMULATED else released(mechanism)


def paths_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Returns the paths that a mechanism has."""
    try:
        mechanism.refuse_release()
    except PgcError:
        return (SIMULATED,)
    return (SIMULATED, RELEASE)


def simulated(mechanism: Mechanism, rng: np.random.Generator) -> Source:
    """Returns a source that draws codes as `pgc train` does: compiled, in float32, with the words
    of a JAX key that `rng` chooses.
    """
    jax = require("jax", "train")

    def draw(gradient: Any, words: Any, secret: Any) -> Any:
        return mechanism.draw(mechanism.prepare(gradient, words), secret)

    def draw_many(key: Any, gradient: Any, words: Any) -> Any:
        secret = jax.random.bits(key, (TOGETHER, mechanism.secret_words), "uint32")
        return jax.vmap(draw, in_axes=(None, None, 0))(gradient, words, secret)

    many = jax.jit(draw_many)
    key = jax.random.key(int.from_bytes(rng.bytes(4), "little"))

    def sample(gradient: np.ndarray, number: int, n: int) -> np.ndarray:
        nonlocal key
        key, *keys = jax.random.split(key, 1 - (-n // TOGETHER))
        with np.errstate(over="ignore"):
            g = jax.numpy.asarray(np.asarray(gradient, np.float32))
        words = jax.numpy.asarray(public(mechanism, number))
        codes = np.concatenate([np.asarray(many(now, g, words)) for now in keys])
        return codes[:n].reshape(n, -1)

    return sample


def released(mechanism: Mechanism) -> Source:
    """Returns a source that draws codes as a device does: through the bytes of its report, where an
    offer can ask for the mechanism.
    """
    mechanism.refuse_release()
    if not on_the_wire(mechanism):
        return _repeated(lambda gradient, number: release(mechanism, gradient, public_seed(number)))
    query = Query.of(mechanism)
    return _repeated(lambda gradient, number: _reported(query, gradient, number, None).code)


def score_source(score_bit: ScoreBit, path: str, rng: np.random.Generator) -> Source:
    """Returns a source of noisy booleans.

    Its "gradient" says whether the score reached Θ. On the release path, the code in the same
    report is part of the sample.
    """
    if path == RELEASE:
        query = Query.of(Duchi(dim=2, epsilon=1.0), score_bit.epsilon)

        def both(gradient: np.ndarray, number: int) -> np.ndarray:
            report = _reported(query, np.ones(2), number, bool(gradient[0] > 0))
            return np.array([bool(report.score_bit), *report.code])

        return _repeated(both)
    return lambda gradient, number, n: score_bit.draw(
        np.asarray(gradient[0] > 0), rng.integers(0, 2**32, (n, 1), np.uint32)
    )


def _reported(query: Query, vector: np.ndarray, number: int, success: bool | None) -> Report:
    """Returns the report that a device sends, read back from its bytes."""
    offer = Offer(
        offer_id=number, policy_version=0, query=query, theta=np.zeros(query.dim, np.float32)
    )
    with np.errstate(all="ignore"):
        return Report.decode(draw_report(offer, vector, success), offer)


def _repeated(one: Callable[[np.ndarray, int], Any]) -> Source:
    return lambda gradient, number, n: stacked(
        [_or_nothing(one, gradient, number) for _ in range(n)]
    )


def _or_nothing(one: Callable[[np.ndarray, int], Any], gradient: np.ndarray, number: int) -> Any:
    """Returns one code, or None if the mechanism fails.

    A failure reveals something about the gradient, so a missing report counts as an output.
    """
    try:
        return one(gradient, number)
    except Exception:
        return None


def stacked(codes: list[Any]) -> np.ndarray:
    """Returns codes as rows of one width; numbers that are missing are NaN."""
    rows = [
        np.zeros(0) if code is None else np.atleast_1d(np.asarray(code)).ravel() for code in codes
    ]
    width = max(1, *(len(row) for row in rows))
    if all(len(row) == width for row in rows):
        return np.array(rows)
    return np.array(
        [np.pad(row.astype(float), (0, width - len(row)), constant_values=np.nan) for row in rows]
    )
