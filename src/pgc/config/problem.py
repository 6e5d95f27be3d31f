"""Builds the four steps of a run from a config, and states the ε that really holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from pgc.config import rules
from pgc.config.config import TrainConfig
from pgc.config.parts import make_optimizer, make_recipe
from pgc.config.resolution import resolve, resolve_with_parts, resolve_without_policy
from pgc.config.start import theta_of
from pgc.config.validation import fits_world, validate
from pgc.deliver.delivery import Deliverer
from pgc.deliver.initial import Initial
from pgc.deliver.schedule import Schedule
from pgc.errors import PgcError, in_one_line
from pgc.local_training.definition import LocalTraining
from pgc.local_training.estimators.evolution import MOST_DIRECTIONS
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import world_of
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.simulated import Randomiser
from pgc.update.aggregator import Aggregator, AggregatorState
from pgc.update.cap import OutputCap


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A config, validated and built: the four steps and how often they are taken."""

    config: TrainConfig
    deliverer: Deliverer
    """Step 1: the schedule of α, and the public subspace."""
    training: LocalTraining
    """Step 2: the world, the policy, and how agents make a gradient."""
    randomiser: Randomiser
    """Step 3: the mechanism, and the noisy boolean if there is one."""
    aggregator: Aggregator
    """Step 4: the update rule."""
    initial: Initial
    """θ_0, or how it is drawn."""

    def start(self, theta: jax.Array) -> AggregatorState:
        """Returns the state of version 0, ready to be delivered."""
        return self.deliverer.with_basis(self.aggregator.start(theta))

    @property
    def epsilon_gradient(self) -> float:
        """The ε that the gradients of one agent really spend, over all its submissions."""
        guarantee = self.randomiser.mechanism.guarantee
        if guarantee.honest:
            return self.config.epsilon - self.config.score_epsilon
        return guarantee.epsilon * self.config.submissions_per_agent

    @property
    def epsilon_score(self) -> float:
        """The ε that the noisy booleans of one agent spend, over all its submissions."""
        return self.config.score_epsilon

    @property
    def epsilon(self) -> float:
        """The ε that one agent really spends in all, by sequential composition (Theorem 1 of the
        paper).
        """
        if self.randomiser.mechanism.guarantee.honest:
            return self.config.epsilon
        return self.epsilon_gradient + self.epsilon_score


@dataclass(frozen=True, kw_only=True)
class ProblemWithoutPolicy:
    """A config, validated and built, for a policy that only the devices know.

    The aggregator needs the length of θ, and nothing else about the policy.
    """

    config: TrainConfig
    mechanism: Mechanism
    score_bit: ScoreBit | None
    aggregator: Aggregator
    deliverer: Deliverer


def build_without_policy(config: TrainConfig) -> ProblemWithoutPolicy:
    """Returns the aggregator's part of a run whose θ has `config.own_policy` numbers."""
    validate(config)
    fits_world(config, world_of(config))  # Θ, and how long its episodes are
    dim = config.own_policy
    assert dim is not None
    if config.subspace not in (None, "full"):
        raise PgcError(
            "for a policy that only the devices know, use --subspace full (the whole gradient)"
        )
    config, gradient_epsilon, score_epsilon = resolve_without_policy(config)
    mechanism = _make_mechanism(config, dim, gradient_epsilon)
    return ProblemWithoutPolicy(
        config=_with_parameters(config, mechanism),
        mechanism=mechanism,
        score_bit=ScoreBit(epsilon=score_epsilon) if score_epsilon else None,
        aggregator=_make_aggregator(config, mechanism, None),
        deliverer=Deliverer(schedule=Schedule(config.alpha_start, config.alpha_decay)),
    )


def build(config: TrainConfig) -> Problem:
    """Validates a config and returns the problem made from it. Every refusal says what to do."""
    validate(config)
    if config.own_policy is not None:
        raise PgcError("a policy that only the devices know cannot be simulated; use pgc serve")
    config, world, policy, subspace, gradient_epsilon, score_epsilon = resolve_with_parts(config)
    fits_world(config, world)
    if isinstance(policy, TorchPolicy) and not world.on_host:
        raise PgcError(
            f"a PyTorch policy plays on the host, not in {world.name}; use a Gymnasium world "
            "(--world gymnasium:ID)"
        )
    assert config.population is not None and config.local_episodes is not None
    assert config.output_cap is not None
    mechanism = _make_mechanism(
        config, policy.dim if subspace is None else subspace.dim, gradient_epsilon
    )
    _check_own(mechanism)
    if config.estimator == "evolution" and mechanism.dim > MOST_DIRECTIONS:
        raise PgcError(
            f"evolution can try at most {MOST_DIRECTIONS} directions, not {mechanism.dim}; use a "
            "smaller subspace, or --estimator policy-gradient"
        )
    training = LocalTraining(
        world=world,
        population=Population.parse(world, config.population),
        policy=policy,
        recipe=make_recipe(config, world, policy),
        dim=mechanism.dim,
        episodes=config.local_episodes,
    )
    randomiser = Randomiser(
        mechanism=mechanism,
        score_bit=ScoreBit(epsilon=score_epsilon) if score_epsilon else None,
        submissions_per_agent=config.submissions_per_agent,
        control=config.control,
    )
    bounds = world.observation_bounds
    cap = None
    if config.output_cap < math.inf:
        if not isinstance(policy, ActorCritic):
            raise PgcError(
                "output_cap scales the head of an actor-critic network; for another policy, leave "
                "it out"
            )
        cap = OutputCap(policy=policy, bounds=bounds, most=config.output_cap)
    return Problem(
        config=_with_parameters(config, mechanism),
        deliverer=Deliverer(
            schedule=Schedule(config.alpha_start, config.alpha_decay), subspace=subspace
        ),
        training=training,
        randomiser=randomiser,
        aggregator=_make_aggregator(config, mechanism, cap),
        initial=Initial(config.initial, theta_of(config, policy.dim)),
    )


def _with_parameters(config: TrainConfig, mechanism: Mechanism) -> TrainConfig:
    """Returns the config with the parameters that its mechanism has, so that config.yaml and
    privacy.json state the same, and a problem that is built from it again is the same.
    """
    return replace(
        config,
        clip=config.clip if mechanism.clips else None,
        code_size=getattr(mechanism.core, "code_size", config.code_size),
        reduced_dim=getattr(mechanism.core, "reduced_dim", config.reduced_dim),
    )


def _make_mechanism(config: TrainConfig, dim: int, epsilon: float) -> Mechanism:
    assert config.clip is not None
    return make_mechanism(
        config.mechanism,
        dim=dim,
        epsilon=epsilon,
        clip=config.clip,
        lift=config.lift,
        reduced_dim=config.reduced_dim,
        unbiased=config.unbiased,
        code_size=config.code_size,
    )


def _check_own(mechanism: Mechanism) -> None:
    """Refuses a mechanism of a user's own that JAX cannot compile for this d."""
    if type(mechanism).__module__.startswith("pgc."):
        return
    public, secret = (jnp.zeros(n, jnp.uint32) for n in mechanism.simulated_words)
    try:
        jax.eval_shape(mechanism.randomize, jnp.zeros(mechanism.dim), public, secret)
    except PgcError:
        raise
    except Exception as error:  # whatever a user's code does
        raise PgcError(
            f"{mechanism.name} cannot be compiled by JAX for d = {mechanism.dim} "
            f"({in_one_line(error)}); see docs/add-a-mechanism.md"
        ) from None


def _make_aggregator(
    config: TrainConfig, mechanism: Mechanism, cap: OutputCap | None
) -> Aggregator:
    assert config.buffer_size is not None and config.learning_rate is not None
    assert config.step_decay is not None
    if config.trim and int(config.trim * config.buffer_size) < 1:
        raise PgcError(
            f"trim {config.trim:g} of a buffer of {config.buffer_size} leaves out nothing; enlarge "
            "one of them"
        )
    return Aggregator(
        optimizer=make_optimizer(config.optimizer),
        learning_rate=config.learning_rate,
        buffer_size=config.buffer_size,
        uses_per_report=config.uses_per_report,
        max_staleness=config.max_staleness,
        average_from=int(config.average_from * config.submissions),
        trim=config.trim,
        held=config.buffer_size if config.trim else 0,
        step_decay=config.step_decay,
        report_norm=math.inf if config.report_norm is None else config.report_norm,
        coordinate_norm=_longest_report(mechanism) if config.report_norm is None else None,
        cap=cap,
    )


def _longest_report(mechanism: Mechanism) -> float | None:
    """Returns the L2 norm to which longer reports are scaled down; None for no limit.

    It is `rules.LONGEST_REPORT` times the root mean square norm of an honest report. There is no
    limit if a mechanism's reports all have the same norm, or if its error is not known.
    """
    squared = mechanism.error(0.0)
    differ = not mechanism.one_length and 0 < squared < math.inf
    return rules.LONGEST_REPORT * math.sqrt(squared) if differ else None


__all__ = ["Problem", "ProblemWithoutPolicy", "build", "build_without_policy", "resolve"]
