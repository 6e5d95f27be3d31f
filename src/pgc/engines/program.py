"""Advances a block of compiled trials that is passed as plain arrays, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config.problem import Problem
from pgc.engines.compiled import Engine, Record, State, engine_of, in_lanes


class Program:
    """The compiled program of a problem, for a fixed number of lanes.

    The traced numbers (`tracing.py`) and the state are arguments of `advance`.
    """

    def __init__(self, problem: Problem, lanes: int) -> None:
        engine = in_lanes(engine_of(problem), lanes)
        self._engine = jax.tree.structure(engine)
        self._state = jax.tree.structure(
            jax.eval_shape(
                engine.start, jnp.zeros((2, lanes), jnp.uint32), jnp.zeros((lanes,), bool)
            )
        )

    def advance(
        self, numbers: Sequence[np.ndarray], state: Sequence[np.ndarray], turns: int
    ) -> tuple[Any, ...]:
        """Runs up to `turns` turns; returns the state afterwards, and what arrived (`arrived`)."""
        engine: Engine = jax.tree.unflatten(self._engine, [jnp.asarray(leaf) for leaf in numbers])
        before: State = jax.tree.unflatten(self._state, [jnp.asarray(leaf) for leaf in state])
        after, records = engine.advance(before, turns)
        return leaves(after), arrived(jax.device_get(records))


def leaves(tree: Any) -> list[np.ndarray]:
    """Returns the arrays of a tree, on the host."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def arrived(records: Record) -> tuple[np.ndarray, ...]:
    """Returns the columns lane, n, score, steps, staleness, tick and bit.

    They have one entry for each report that arrived, ordered by lane and then by arrival.
    """
    lane, turn = np.nonzero(records.arrived.T)
    r: Any = records
    return lane, *(
        column[turn, lane] for column in (r.n, r.score, r.ticks, r.staleness, r.ends, r.bit)
    )
