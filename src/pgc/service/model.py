"""One model that a service trains: a config, the aggregator it builds, and the offers it makes.

Nothing here touches a disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load, save

from pgc.config import TrainConfig
from pgc.config.problem import build, build_own
from pgc.deliver.initial import initial_theta
from pgc.deliver.schedule import Schedule
from pgc.errors import PgcError
from pgc.local_training.definition import LocalTraining
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.recipe import Recipe
from pgc.numerics.randomness import trial_seed
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.update.aggregator import Aggregator, AggregatorState
from pgc.wire import Offer, Query, Report
from pgc.wire.offer import public_seed

AT_ONCE, NUMBERS_AT_ONCE = 256, 2**22
"""Reports in one call of the compiled loop, at most; and numbers in them."""


class Published(NamedTuple):
    """A version as others see it: one value that never changes, apart from the state that the
    updater works on.
    """

    version: int
    template: Offer
    """Offers of this version, but for their number and the time at which they expire."""
    averaged: np.ndarray
    """The averaged policy when this version was made."""

    @property
    def numbers(self) -> int:
        """Count of the numbers in θ, the averaged policy and the basis."""
        return 2 * self.template.theta.size + (
            0 if self.template.basis is None else self.template.basis.size
        )

    def policies(self) -> bytes:
        """Returns θ and the averaged policy, as a run's policy.safetensors has them."""
        made: bytes = save({"theta": self.template.theta, "averaged": self.averaged})
        return made

    def offer(self, offer_id: int, expires_at: int) -> bytes:
        """Step 1: this version, for one device."""
        return self.template.renumbered(offer_id, expires_at)


@dataclass
class Model:
    """Steps 1 and 4 for one model.

    Its state is a function of the reports that it took, in their order.
    """

    name: str
    config: TrainConfig
    initial: np.ndarray | None = None
    """θ_0 of a policy of the devices' own; by default zeros."""
    aggregator: Aggregator = field(init=False)
    training: LocalTraining | None = field(init=False)
    """What devices do with θ, where it is a policy that this program knows."""
    query: Query = field(init=False)
    """What every offer asks for."""
    score_bit: ScoreBit | None = field(init=False)
    state: AggregatorState = field(init=False)
    published: Published = field(init=False)
    """What new offers are made of."""

    def __post_init__(self) -> None:
        """Version 0."""
        if self.config.own_policy is None:
            problem = build(self.config)
            if not isinstance(problem.training.policy, ActorCritic):
                raise PgcError(
                    "devices of pgc know the actor-critic network; serve θ of a policy of your own "
                    "with --theta"
                )
            self.config, self.aggregator, self.training = (
                problem.config,
                problem.aggregator,
                problem.training,
            )
            mechanism, self.score_bit = problem.randomiser.mechanism, problem.randomiser.score_bit
            theta = initial_theta(
                trial_seed(self.config.seed, 0), self.training.policy, self.config.initial
            )
        else:
            own = build_own(self.config)
            self.config, self.aggregator, self.training = own.config, own.aggregator, None
            mechanism, self.score_bit = own.mechanism, own.score_bit
            theta = jnp.asarray(
                np.zeros(mechanism.dim) if self.initial is None else self.initial, jnp.float32
            )
        self.query = Query.of(mechanism, 0.0 if self.score_bit is None else self.score_bit.epsilon)
        self.state = self.aggregator.start(theta)
        self.published = self.publish(self.state)
        self.take([], [])  # compiled now, and not for the first report

    @property
    def recipe(self) -> Recipe | None:
        """What devices do with θ, where this program knows."""
        return None if self.training is None else self.training.recipe

    @property
    def version(self) -> int:
        """How many updates made θ."""
        return int(self.state.version)

    @property
    def received(self) -> int:
        """Reports taken so far, n."""
        return int(self.state.received)

    @property
    def at_once(self) -> int:
        """How many reports `take` takes at most in one call."""
        return max(1, min(AT_ONCE, NUMBERS_AT_ONCE // len(self.state.theta)))

    def publish(self, state: AggregatorState) -> Published:
        """The version of a state that was just made: α is that of its first offer, so that all its
        offers are alike.
        """
        assert self.config.local_episodes is not None
        template = Offer(
            offer_id=0,
            policy_version=int(state.version),
            query=self.query,
            episodes=self.config.local_episodes,
            alpha=Schedule(self.config.alpha_start, self.config.alpha_decay).alpha(
                int(state.received)
            ),
            theta=np.asarray(state.theta, np.float32),
            basis=None if state.basis is None else np.asarray(state.basis, np.float32),
        )
        return Published(int(state.version), template, np.asarray(state.average, np.float32))

    def take(self, estimates: Sequence[np.ndarray], versions: Sequence[int]) -> int:
        """Step 4: take decoded reports until a new version is made. How many were taken.

        The same compiled loop whatever their number: how reports are grouped changes no bit.
        """
        rows, of = (
            np.zeros((self.at_once, len(self.state.theta)), np.float32),
            np.zeros(self.at_once, np.int32),
        )
        some = min(len(estimates), self.at_once)
        if some:
            rows[:some], of[:some] = estimates[:some], versions[:some]
        self.state, taken = _take(self.aggregator, self.state, rows, of, np.int32(some))
        return int(taken)

    def restored(
        self, old: AggregatorState, now: AggregatorState, received: int
    ) -> AggregatorState:
        """An earlier state under the next number: what rolling back makes.

        What is counted stays counted.
        """
        return old._replace(
            version=jnp.asarray(now.version + 1),
            received=jnp.int32(received),
            discarded=now.discarded,
        )

    def estimate(self, offer_id: int, payload: bytes, basis: np.ndarray | None) -> np.ndarray:
        """What the payload of a report says of the gradient, with the basis of its own version."""
        code, _ = self.query.decode_code(payload)
        return Report.decoded(self.query, code, public_seed(offer_id), basis)

    def pack(self, state: AggregatorState | None = None) -> bytes:
        """A whole state (that of now), for the store: θ, buffer, optimiser, versions, averages, to
        the bit.
        """
        leaves = jax.tree.leaves(self.state if state is None else state)
        packed: bytes = save({f"{i:03}": np.asarray(leaf) for i, leaf in enumerate(leaves)})
        return packed

    def unpack(self, packed: bytes) -> AggregatorState:
        """The inverse of `pack`."""
        found = load(packed)
        leaves: list[Any] = [found[name] for name in sorted(found)]
        state: AggregatorState = jax.tree.unflatten(jax.tree.structure(self.state), leaves)
        return state


@jax.jit
def _take(
    aggregator: Aggregator,
    state: AggregatorState,
    estimates: jax.Array,
    versions: jax.Array,
    count: jax.Array,
) -> tuple[AggregatorState, jax.Array]:
    def more(carry: tuple[AggregatorState, jax.Array]) -> jax.Array:
        now, i = carry
        return (i < count) & (now.version == state.version)

    def one(carry: tuple[AggregatorState, jax.Array]) -> tuple[AggregatorState, jax.Array]:
        now, i = carry
        return aggregator.accept(now, estimates[i], versions[i]), i + 1

    return jax.lax.while_loop(more, one, (state, jnp.zeros((), jnp.int32)))
