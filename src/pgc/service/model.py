"""One model that a service trains: a config, the aggregator it builds, and the offers it makes. Nothing here touches a disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load, save

from pgc.agent import initial_theta
from pgc.aggregator import AggregatorState
from pgc.config import TrainConfig
from pgc.device.recipe import Recipe
from pgc.problem import Problem, build
from pgc.randomness import trial_seed
from pgc.wire import Offer, Query, Report


@dataclass
class Model:
    """Steps 1 and 4 for one model, one report at a time, in the order in which they were accepted."""

    name: str
    config: TrainConfig
    problem: Problem = field(init=False)
    query: Query = field(init=False)
    """What every offer asks for."""
    state: AggregatorState = field(init=False)

    def __post_init__(self) -> None:
        """Version 0."""
        self.problem = build(self.config)
        training = self.problem.training
        score = 0.0 if training.score_bit is None else training.score_bit.epsilon
        self.query = Query.of(training.mechanism, score)
        self._accept = jax.jit(self.problem.aggregator.accept)
        theta = initial_theta(trial_seed(self.config.seed, 0), training.policy, self.problem.config.initial)
        self.state = self.problem.aggregator.start(theta)
        self._accept(self.state, jnp.zeros(len(theta)), jnp.zeros((), jnp.int32))  # compiled now, and not for the first report

    @property
    def recipe(self) -> Recipe:
        """What devices do with θ."""
        return Recipe.of(self.problem.training)

    @property
    def version(self) -> int:
        """Of θ."""
        return int(self.state.version)

    @property
    def received(self) -> int:
        """Reports accepted so far, n."""
        return int(self.state.received)

    def offer(self, offer_id: int, expires_at: int) -> Offer:
        """Step 1: θ of now, for one device."""
        training = self.problem.training
        alpha = max(0.0, training.alpha_start - self.received / training.alpha_decay)  # `exploration.alpha`
        return Offer(
            offer_id=offer_id,
            policy_version=self.version,
            expires_at=expires_at,
            query=self.query,
            episodes=training.episodes,
            alpha=alpha,
            theta=np.asarray(self.state.theta, np.float32),
            basis=None if self.state.basis is None else np.asarray(self.state.basis, np.float32),
        )

    def accept(self, estimate: np.ndarray, version: int) -> None:
        """Step 4: take one decoded report."""
        self.state = self._accept(self.state, jnp.asarray(estimate, jnp.float32), jnp.asarray(version, jnp.int32))

    def estimate(self, offer_id: int, version: int, payload: bytes, basis: np.ndarray | None) -> np.ndarray:
        """What the payload of a report says of the gradient, with the basis of its own version."""
        code, score_bit = self.query.decode_code(payload)
        theta = np.zeros(self.problem.training.policy.dim, np.float32)
        offer = Offer(offer_id=offer_id, policy_version=version, query=self.query, theta=theta, basis=basis)
        return Report(offer_id=offer_id, policy_version=version, code=code, score_bit=score_bit).vector(offer)

    def policies(self) -> bytes:
        """θ and the averaged policy, as a run's policy.safetensors has them."""
        made: bytes = save({"theta": np.asarray(self.state.theta), "averaged": np.asarray(self.state.average)})
        return made

    def pack(self, state: AggregatorState | None = None) -> bytes:
        """A whole state (that of now), for the store: θ, buffer, optimiser, versions, averages, to the bit."""
        leaves = jax.tree.leaves(self.state if state is None else state)
        packed: bytes = save({f"{i:03}": np.asarray(leaf) for i, leaf in enumerate(leaves)})
        return packed

    def unpack(self, packed: bytes) -> AggregatorState:
        """The inverse of `pack`."""
        found = load(packed)
        leaves: list[Any] = [jnp.asarray(found[name]) for name in sorted(found)]
        state: AggregatorState = jax.tree.unflatten(jax.tree.structure(self.state), leaves)
        return state
