"""Step 1: what agents are handed, made of what the aggregator knows.

All of it is a function of θ, of how many reports were received, and of public values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import jax

from pgc.deliver.schedule import Schedule
from pgc.deliver.subspace import Subspace
from pgc.wire.values import Delivery


class Version(Protocol):
    """The part of an aggregator's state that this step needs."""

    @property
    def theta(self) -> Any:
        """θ (d,), of the newest version."""

    @property
    def version(self) -> Any:
        """How many updates made θ."""

    @property
    def basis(self) -> Any:
        """The basis W (d, k) that is handed out with θ, or None if the whole gradient is."""

    @property
    def _replace(self) -> Callable[..., Any]:
        """Returns the same state with other values of some fields (it is a named tuple)."""


S = TypeVar("S", bound=Version)


@dataclass(frozen=True, kw_only=True)
class Deliverer:
    """Step 1 of every round (`initial.py` draws θ_0). Every engine and the service have one."""

    schedule: Schedule
    """α, the probability of a random action, which falls with the number of submissions."""
    subspace: Subspace | None = None
    """The public subspace in which agents report; None for the whole gradient (the paper)."""

    def alpha(self, received: Any) -> Any:
        """Returns α for an agent that begins after so many submissions were received."""
        return self.schedule.alpha(received)

    def basis(self, theta: jax.Array) -> jax.Array | None:
        """Returns the basis W (d, k) that is handed out with this θ, or None."""
        return None if self.subspace is None else self.subspace.basis(theta)

    def prepare(self, before: S, after: S) -> S:
        """Returns `after`, the state that step 4 made from `before`, ready to be delivered.

        If it is a new version, its basis is made from its θ.
        """
        if self.subspace is None:
            return after
        same = after.version == before.version
        ready: S = jax.lax.cond(same, lambda state: state, self.with_basis, after)
        return ready

    def with_basis(self, state: S) -> S:
        """Returns the state with the basis of its θ."""
        made: S = state._replace(basis=self.basis(state.theta))
        return made

    def deliver(self, state: Version) -> Delivery:
        """Returns what an agent is handed now: θ and the basis; `alpha` goes beside them."""
        return Delivery(state.theta, state.basis)
