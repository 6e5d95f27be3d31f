"""Step 1: selects what the next agent is handed from all that the aggregator knows."""

from __future__ import annotations

from typing import Any, Protocol

from pgc.wire.values import Delivery


class HasPolicy(Protocol):
    """The part of an aggregator's state that this step needs: θ, and the basis made from it."""

    @property
    def theta(self) -> Any:
        """θ (d,), of the newest version."""

    @property
    def basis(self) -> Any:
        """The basis W (d, k) of the public subspace, or None if the whole gradient is reported."""


def deliver(state: HasPolicy) -> Delivery:
    """Returns what an agent is handed now.

    α is not part of it: it falls with the number of submissions (`schedule.py`).
    """
    return Delivery(state.theta, state.basis)
