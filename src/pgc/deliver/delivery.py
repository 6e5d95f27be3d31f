"""Step 1: what the next agent is handed, of all that an aggregator knows."""

from __future__ import annotations

from typing import Any, Protocol

from pgc.wire.values import Delivery


class HasPolicy(Protocol):
    """An aggregator's state, of which this step needs θ and the basis that was made from it."""

    @property
    def theta(self) -> Any:
        """θ (d,), of the newest version."""

    @property
    def basis(self) -> Any:
        """W (d, k) of the public subspace; None: the whole gradient is reported."""


def deliver(state: HasPolicy) -> Delivery:
    """Returns what an agent is handed now. α comes beside it (`schedule.py`): it falls
    with time.
    """
    return Delivery(state.theta, state.basis)
