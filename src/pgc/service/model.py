"""One model that a service trains: a config, the aggregator it builds, and the offers it makes.

Nothing here touches a disk. Only the process that updates has models; front ends hand out what it
made of them (`follower.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load, save

from pgc.config import TrainConfig, to_yaml
from pgc.config.problem import build, build_without_policy
from pgc.deliver.delivery import Deliverer
from pgc.deliver.initial import initial_theta
from pgc.errors import PgcError
from pgc.local_training.definition import LocalTraining
from pgc.local_training.learnt import policy_notes
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.recipe import Recipe
from pgc.numerics.randomness import trial_seed
from pgc.randomise.budget import epsilon_shown
from pgc.randomise.mechanisms.forms import FIRST_OUTSIDE
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.service.store import Kept
from pgc.update.aggregator import Aggregator, AggregatorState
from pgc.wire import Offer, Query, Report
from pgc.wire.offer import public_seed

log = logging.getLogger("pgc.service")

CARD_VERSION = 2
"""2 added `play`: the box, actions, steps and Θ that devices must have too."""
AT_ONCE, NUMBERS_AT_ONCE = 256, 2**22
"""The most reports in one call of the compiled loop, and the most numbers in them."""


@dataclass(frozen=True, eq=False)
class Published:
    """A version as it is offered: a value that never changes.

    It is separate from the state that the updater works on.
    """

    version: int
    template: Offer
    """An offer of this version, complete but for its number and the time at which it expires."""
    averaged: np.ndarray
    """The averaged policy when this version was made."""
    recipe: Recipe | None = None
    """The network that θ belongs to; None if only the devices know it."""

    @property
    def numbers(self) -> int:
        """How many numbers θ, the averaged policy and the basis have together."""
        return 2 * self.template.theta.size + (
            0 if self.template.basis is None else self.template.basis.size
        )

    @cached_property
    def policies(self) -> bytes:
        """Returns θ and the averaged policy, as a run's policy.safetensors has them."""
        made: bytes = save(
            {"theta": self.template.theta, "averaged": self.averaged}, policy_notes(self.recipe)
        )
        return made


@dataclass
class Model:
    """Steps 1 and 4 for one model.

    Its state is a function of the reports that it took, in their order.
    """

    name: str
    config: TrainConfig
    theta_0: np.ndarray | None = None
    """θ_0 of a policy that only the devices know; by default zeros."""
    aggregator: Aggregator = field(init=False)
    deliverer: Deliverer = field(init=False)
    training: LocalTraining | None = field(init=False)
    """What devices do with θ; None if only the devices know the policy."""
    query: Query = field(init=False)
    """What every offer asks for."""
    score_bit: ScoreBit | None = field(init=False)
    state: AggregatorState = field(init=False)
    published: Published = field(init=False)
    """The version from which new offers are made."""

    def __post_init__(self) -> None:
        """Builds the aggregator, and makes version 0."""
        if self.config.own_policy is None:
            problem = build(self.config)
            if not isinstance(problem.training.policy, ActorCritic):
                raise PgcError(
                    "devices of pgc know only the actor-critic network; serve θ of a policy of "
                    "your own with --theta"
                )
            self.config, self.aggregator, self.deliverer, self.training = (
                problem.config,
                problem.aggregator,
                problem.deliverer,
                problem.training,
            )
            mechanism, self.score_bit = problem.randomiser.mechanism, problem.randomiser.score_bit
            theta = initial_theta(
                trial_seed(self.config.seed, 0), self.training.policy, problem.initial
            )
        else:
            own = build_without_policy(self.config)
            self.config, self.aggregator, self.deliverer = (
                own.config,
                own.aggregator,
                own.deliverer,
            )
            self.training = None
            mechanism, self.score_bit = own.mechanism, own.score_bit
            theta = jnp.asarray(
                np.zeros(mechanism.dim) if self.theta_0 is None else self.theta_0, jnp.float32
            )
        self.query = Query.of(mechanism, 0.0 if self.score_bit is None else self.score_bit.epsilon)
        self.state = self.deliverer.with_basis(self.aggregator.start(theta))
        self.published = self.as_published(self.state)
        self.accept([], [])  # compiles now, and not for the first report

    @cached_property
    def card(self) -> dict[str, Any]:
        """What is public about the model and does not change, as plain data.

        The config in it is without θ_0 and directions, which offers carry.
        """
        recipe = self.recipe
        return {
            "card": CARD_VERSION,
            "model": self.name,
            "mechanism": self.query.name,
            "epsilon_per_report": epsilon_shown(self.query.cost),
            "nano_epsilon_per_report": self.query.cost,
            "numbers": len(self.state.theta),
            "buffer_size": int(self.aggregator.buffer_size),
            "world": None if recipe is None else self.config.world,
            "recipe": None if recipe is None else recipe.card,
            "play": None if recipe is None else recipe.play,
            "bounds": self.config.bounds,
            "config": to_yaml(replace(self.config, start=None, learnt_directions=None)),
        }

    def kept(self, applied: int, made: Published, restored: int | None = None) -> Kept:
        """Returns the current state and what is published of it, as the store keeps them."""
        tail, policies = made.template.tail, made.policies
        return Kept(made.version, applied, self.pack(), restored, tail, policies)

    @property
    def recipe(self) -> Recipe | None:
        """How devices play θ; None if only the devices know the policy."""
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
        """The most reports that one call of `accept` takes."""
        return max(1, min(AT_ONCE, NUMBERS_AT_ONCE // len(self.state.theta)))

    def as_published(self, state: AggregatorState) -> Published:
        """Returns the version that offers are made from, given its state.

        α is that of the version's first offer, so that all its offers are alike.
        """
        assert self.config.local_episodes is not None
        theta, basis = self.deliverer.deliver(state)
        template = Offer(
            offer_id=0,
            policy_version=int(state.version),
            query=self.query,
            episodes=self.config.local_episodes,
            alpha=self.deliverer.alpha(int(state.received)),
            theta=np.asarray(theta, np.float32),
            basis=None if basis is None else np.asarray(basis, np.float32),
        )
        averaged = np.asarray(state.average, np.float32)
        return Published(int(state.version), template, averaged, self.recipe)

    def accept(self, estimates: Sequence[np.ndarray], versions: Sequence[int]) -> int:
        """Step 4: takes decoded reports until a new version is made; returns how many it took.

        The compiled loop is the same for any number of reports, so grouping them changes no bit.
        """
        rows, of = (
            np.zeros((self.at_once, len(self.state.theta)), np.float32),
            np.zeros(self.at_once, np.int32),
        )
        some = min(len(estimates), self.at_once)
        if some:
            rows[:some], of[:some] = estimates[:some], versions[:some]
        self.state, taken = _accept(
            self.deliverer, self.aggregator, self.state, rows, of, np.int32(some)
        )
        return int(taken)

    def rolled_back(
        self, old: AggregatorState, now: AggregatorState, received: int
    ) -> AggregatorState:
        """Returns the earlier state `old` with the version number that follows that of `now`.

        This is what rolling back makes. Reports that were counted stay counted.
        """
        return old._replace(
            version=jnp.asarray(now.version + 1),
            received=jnp.int32(received),
            discarded=now.discarded,
        )

    def estimate(self, offer_id: int, payload: bytes, basis: np.ndarray | None) -> np.ndarray:
        """Returns g̃, what a payload decodes to; `basis` is that of the report's version."""
        code, _ = self.query.decode_code(payload)
        try:
            return Report.estimate(self.query, code, public_seed(offer_id), basis)
        except Exception:
            if self.query.kind < FIRST_OUTSIDE:
                raise
            # One report of a mechanism from outside must not hold up all that come after it.
            log.exception("%s cannot decode a report; it counts as zeros", self.query.name)
            return np.zeros(len(self.published.template.theta))

    def pack(self, state: AggregatorState | None = None) -> bytes:
        """Returns a whole state, by default the current one, as bytes for the store.

        `unpack` restores it to the bit: θ, buffer, optimiser, version and average.
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


@partial(jax.jit, static_argnums=0)
def _accept(
    deliverer: Deliverer,
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
        updated = aggregator.accept(now, estimates[i], versions[i])
        return deliverer.prepare(now, updated), i + 1

    return jax.lax.while_loop(more, one, (state, jnp.zeros((), jnp.int32)))
