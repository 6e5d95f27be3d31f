"""One frozen dataclass holds everything that decides a run: a run is a function of (config, seed).

It is validated in one place (`build`), and round-trips through YAML and the command line. The help text of each
flag is the text under its field.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import jax.numpy as jnp
import optax
import yaml

from pgc.agent import LocalTraining
from pgc.aggregator import Aggregator
from pgc.errors import PgcError
from pgc.mechanisms import MECHANISMS, ScoreBit, make_mechanism
from pgc.policies import ActorCritic, LossOptions
from pgc.randomness import MAX_ITEMS
from pgc.worlds import Population, make_world

Preset = Literal["default", "paper"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train one policy for a population of private worlds under ε-local differential privacy."""

    preset: Preset = "default"
    """The values that all other flags start from: `default` learns best; `paper` is the paper as printed."""

    # Privacy
    mechanism: str = "prs"
    """What randomises each gradient on the agent: none, laplace, prs, or laplace-coordinatewise (which is NOT ε-LDP)."""
    epsilon: float = 1.0
    """ε: the whole privacy budget of one agent, over all it ever sends; `inf` for no privacy (clip only)."""
    score_epsilon: float = 0.0
    """The share of ε spent on a noisy boolean "score ≥ Θ" in each report; 0 sends no score."""
    submissions_per_agent: int = 1
    """T: how often one agent submits, at ε/T each."""
    clip: float | None = None
    """C, the clipping size; by default what suits the mechanism and preset (paper: 0.01 for laplace and none, 1 for prs)."""
    reduced_dim: int | None = None
    """d̂ of prs, the bits in a report; by default the paper's max(1, min(d, ⌊ε/2.5⌋))."""
    control: bool = False
    """Replace every gradient by zero before the mechanism: shows what pure noise achieves."""

    # The private worlds and the agents in them
    world: str = "cartpole"
    """The world that agents live in."""
    population: tuple[str, ...] | None = None
    """How agents' ψ differ: FIELD=v1,v2,… or FIELD=low:high, several allowed (paper: gravity=9.7,9.8,9.9)."""
    workers: int = 9
    """W: agents that play at the same time; their reports arrive asynchronously."""
    local_episodes: int = 10
    """Episodes that an agent plays for one report. They cost environment steps, not ε."""
    action: Literal["sampled", "argmax"] = "sampled"
    """How agents act: sampled from π, or its argmax."""
    alpha_start: float = 0.0
    """α at the start: the probability of a random action is max(0, alpha_start − n/alpha_decay) after n submissions."""
    alpha_decay: float = 1800.0
    """See alpha_start."""
    score: Literal["training", "greedy"] | None = "greedy"
    """ζ of a submission: the score of its training episode, or of one more, greedy episode that is not trained on."""

    # Policy and loss
    hidden: tuple[int, ...] = (16,)
    """Widths of the shared ReLU layers."""
    biases: bool = False
    """Whether layers have biases."""
    initial: Literal["glorot", "normal", "zeros"] = "glorot"
    """θ_0: Glorot uniform, N(0, 0.1²), or zeros."""
    discount: float = 0.99
    """γ."""
    value_weight: float = 0.02
    """λ, the weight of the value loss (paper: 0.5). Where only a direction is reported, the critic's share costs the actor's."""
    entropy_weight: float = 0.01
    """β, the weight of the entropy bonus."""
    reward: Literal["step", "end", "failure"] = "step"
    """The world's own reward; −1 / +1 at the end (short / score ≥ Θ); or −1 at failure only."""
    bootstrap: Literal["zero", "always", "timeout"] = "timeout"
    """What stands for V(s_T): nothing, the network's value, or that on time-out only."""
    reduction: Literal["sum", "mean"] = "sum"
    """The loss is a sum or a mean over steps."""
    standardize: Literal["no", "center", "scale"] = "scale"
    """Whether returns are centred, or centred and scaled, over the episodes of one report."""

    # The aggregator
    buffer_size: int | None = None
    """|B|: reports in each update of θ; by default what suits the mechanism and preset (paper: 1, and 100 for prs)."""
    optimizer: str = "sgd"
    """Any optimiser of optax by name: sgd (the paper), adam, rmsprop, …"""
    learning_rate: float | None = None
    """η; by default what suits the preset (paper: 0.5)."""
    uses_per_report: int = 1
    """Update steps made from each full buffer."""
    max_staleness: int | None = None
    """Drop reports whose θ is more than this many versions old; by default none is dropped."""
    average_from: float = 0.5
    """The averaged policy is the mean of θ over the reports after this share of the run."""
    stop_rate: float | None = None
    """Stop a trial once the noisy booleans alone show, at two standard deviations, that more than this share succeed."""
    stop_window: int = 500
    """Reports that the stopping rule looks at together."""

    # The run
    submissions: int = 4000
    """N: private gradients collected in each trial."""
    trials: int = 1
    """Independent trials, side by side in one compiled program; trial i is the same whatever their number (on a CPU)."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same bits."""
    eval_episodes: int = 100
    """Greedy episodes for each ψ that score the final and the averaged policy."""


PRESETS: dict[str, TrainConfig] = {
    "default": TrainConfig(),
    "paper": TrainConfig(
        preset="paper",
        mechanism="laplace",
        local_episodes=1,
        value_weight=0.5,
        action="argmax",
        alpha_start=0.5,
        score=None,  # the training episode's; with several local episodes, a greedy one's
        bootstrap="always",
        standardize="no",
        average_from=0.0,
        submissions=90_000,
        trials=20,
    ),
}


PAPER_SIZES = {"none": (0.01, 1), "laplace": (0.01, 1), "prs": (1.0, 100), "laplace-coordinatewise": (0.01, 1)}
"""C and |B| of the paper."""
DEFAULT_SIZES = {"none": (10.0, 50), "laplace": (0.01, 50), "prs": (1.0, 50), "laplace-coordinatewise": (0.01, 50)}
"""C and |B| otherwise. With standardised returns |M g| ≫ 1 = C: PRS reports the sign of a projection, direction only."""


def configure(**settings: Any) -> TrainConfig:
    """The preset that is named (or the default one) with some settings changed: what the command line does with its flags."""
    preset = settings.get("preset", "default")
    if preset not in PRESETS:
        raise PgcError(f"unknown preset '{preset}'; choose one of: {', '.join(PRESETS)}")
    unknown = set(settings) - {f.name for f in fields(TrainConfig)}
    if unknown:
        raise PgcError(f"unknown setting(s): {', '.join(sorted(unknown))}; pgc train --help lists them")
    return replace(PRESETS[preset], **settings)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A config, validated and built: the four steps and how often they are taken."""

    config: TrainConfig
    training: LocalTraining
    aggregator: Aggregator

    @property
    def epsilon_gradient(self) -> float:
        """What the gradients of one agent spend in truth, over all its submissions."""
        guarantee = self.training.mechanism.guarantee
        if guarantee.honest:
            return self.config.epsilon - self.config.score_epsilon
        return guarantee.epsilon * self.config.submissions_per_agent

    @property
    def epsilon_score(self) -> float:
        """What the score bits of one agent spend, over all its submissions."""
        return self.config.score_epsilon

    @property
    def epsilon(self) -> float:
        """The whole loss of one agent in truth, by sequential composition (Theorem 1 of the paper)."""
        if self.training.mechanism.guarantee.honest:
            return self.config.epsilon
        return self.epsilon_gradient + self.epsilon_score


def resolve(config: TrainConfig) -> TrainConfig:
    """Fill in what a config leaves to its preset, so that `config.yaml` says everything."""
    mechanism = "none" if config.epsilon == math.inf else config.mechanism
    score = config.score or ("greedy" if config.local_episodes > 1 else "training")
    paper = config.preset == "paper"
    clip, buffer_size = (PAPER_SIZES if paper else DEFAULT_SIZES)[mechanism]
    world = make_world(config.world)
    return replace(
        config,
        mechanism=mechanism,
        epsilon=math.inf if mechanism == "none" else config.epsilon,
        score=score,
        clip=clip if config.clip is None else config.clip,
        buffer_size=buffer_size if config.buffer_size is None else config.buffer_size,
        population=world.default_population if config.population is None else config.population,
        learning_rate=(0.5 if paper else 0.6) if config.learning_rate is None else config.learning_rate,
    )


def build(config: TrainConfig) -> Problem:
    """Validate a config and make the parts of a run from it. Every refusal says what to do."""
    _check_numbers(config)
    if config.mechanism not in MECHANISMS:
        raise PgcError(f"unknown mechanism '{config.mechanism}'; choose one of: {', '.join(MECHANISMS)}")
    config = resolve(config)
    world = make_world(config.world)
    policy = ActorCritic(
        observation_dim=world.observation_dim,
        num_actions=world.num_actions,
        hidden=config.hidden,
        biases=config.biases,
    )
    gradient_epsilon, score_epsilon = split_budget(config.epsilon, config.score_epsilon, config.submissions_per_agent)
    assert config.clip is not None and config.buffer_size is not None
    assert config.population is not None and config.learning_rate is not None
    mechanism = make_mechanism(
        config.mechanism, dim=policy.dim, epsilon=gradient_epsilon, clip=config.clip, reduced_dim=config.reduced_dim
    )
    score_bit = ScoreBit(epsilon=score_epsilon) if score_epsilon else None
    training = LocalTraining(
        world=world,
        population=Population.parse(world, config.population),
        policy=policy,
        loss=LossOptions(
            discount=config.discount,
            value_weight=config.value_weight,
            entropy_weight=config.entropy_weight,
            reward=config.reward,
            bootstrap=config.bootstrap,
            reduction=config.reduction,
            standardize=config.standardize,
        ),
        mechanism=mechanism,
        score_bit=score_bit,
        submissions=config.submissions_per_agent,
        episodes=config.local_episodes,
        action=config.action,
        alpha_start=config.alpha_start,
        alpha_decay=config.alpha_decay,
        score="greedy" if config.score == "greedy" else "training",
        control=config.control,
    )
    aggregator = Aggregator(
        optimizer=_make_optimizer(config.optimizer, config.learning_rate),
        buffer_size=config.buffer_size,
        uses_per_report=config.uses_per_report,
        max_staleness=config.max_staleness,
        average_from=int(config.average_from * config.submissions),
    )
    return Problem(config=config, training=training, aggregator=aggregator)


def split_budget(epsilon: float, score_epsilon: float, submissions: int) -> tuple[float, float]:
    """ε of the gradient and of the score bit in one of T submissions, rounded down: T times their sum never exceeds ε."""
    if math.isinf(epsilon):
        return epsilon, score_epsilon / submissions
    score = score_epsilon / submissions
    while Fraction(score) * submissions > Fraction(score_epsilon):
        score = math.nextafter(score, 0)
    gradient = (epsilon - score_epsilon) / submissions
    while (Fraction(gradient) + Fraction(score)) * submissions > Fraction(epsilon):
        gradient = math.nextafter(gradient, 0)
    return gradient, score


def to_yaml(config: TrainConfig) -> str:
    """The config as YAML, fields in order."""
    plain = {f.name: getattr(config, f.name) for f in fields(config)}
    return yaml.safe_dump(
        {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}, sort_keys=False, allow_unicode=True
    )


def from_yaml(text: str) -> TrainConfig:
    """The inverse of `to_yaml`."""
    values: Any
    try:
        values = yaml.safe_load(text)
        known = {f.name for f in fields(TrainConfig)}
        if not isinstance(values, dict) or set(values) != known:
            raise ValueError("its fields are not those of a pgc run")
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise PgcError(f"config.yaml cannot be read ({reason}); was it made by another version of pgc?") from None
    settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return TrainConfig(**settings)


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value fits a field: configs also come from YAML and from Python callers."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in options
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(v, options[0]) for v in value)
    if options:  # a union
        return any(_is_a(value, option) for option in options)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _check_numbers(config: TrainConfig) -> None:
    """Ranges of every number; the rest is checked by the parts themselves."""

    def demand(holds: bool, what: str) -> None:
        if not holds:
            raise PgcError(what)

    kinds = get_type_hints(TrainConfig)
    for f in fields(config):
        value = getattr(config, f.name)
        demand(_is_a(value, kinds[f.name]), f"{f.name} cannot be {value!r}; pgc train --help says what it takes")
        demand(not (isinstance(value, float) and math.isnan(value)), f"{f.name} is not a number")
    demand(config.epsilon > 0, f"epsilon must be greater than 0 (inf for no privacy), not {config.epsilon:g}")
    demand(config.score_epsilon >= 0, f"score_epsilon must be 0 (no score) or more, not {config.score_epsilon:g}")
    demand(
        config.score_epsilon < config.epsilon and config.score_epsilon < math.inf,
        f"score_epsilon is a share of epsilon and must be less than it: {config.score_epsilon:g} ≥ {config.epsilon:g}",
    )
    for name in (
        "submissions_per_agent", "workers", "local_episodes", "uses_per_report", "stop_window", "submissions", "trials",
        "eval_episodes",
    ):  # fmt: skip
        demand(getattr(config, name) >= 1, f"{name} must be at least 1, not {getattr(config, name)}")
    demand(
        config.buffer_size is None or config.buffer_size >= 1,
        f"buffer_size must be at least 1, not {config.buffer_size}",
    )
    demand(
        config.max_staleness is None or config.max_staleness >= 0,
        f"max_staleness must be 0 or more, not {config.max_staleness}",
    )
    demand(
        config.submissions + config.workers < MAX_ITEMS // config.workers,
        f"submissions must be fewer than {MAX_ITEMS // config.workers - config.workers} with {config.workers} workers",
    )
    longest = make_world(config.world).max_steps * (config.local_episodes + 1)
    demand(
        (config.submissions / config.workers + 1) * longest < 2**31,
        "submissions × local_episodes is more than the virtual clock of 31 bits can count; lower one of them",
    )
    demand(0 <= config.seed < 2**32, f"seed must be between 0 and 2³² − 1 (it has 32 bits), not {config.seed}")
    demand(all(h >= 1 for h in config.hidden), f"hidden widths must be at least 1, not {config.hidden}")
    demand(0 <= config.discount <= 1, f"discount must be between 0 and 1, not {config.discount:g}")
    demand(0 <= config.alpha_start <= 1, f"alpha_start must be between 0 and 1, not {config.alpha_start:g}")
    demand(config.alpha_decay > 0, f"alpha_decay must be greater than 0, not {config.alpha_decay:g}")
    demand(0 <= config.average_from < 1, f"average_from must be at least 0 and less than 1, not {config.average_from:g}")
    demand(
        config.learning_rate is None or 0 < config.learning_rate < math.inf,
        f"learning_rate must be greater than 0, not {config.learning_rate}",
    )
    if config.stop_rate is not None:
        demand(0 < config.stop_rate < 1, f"stop_rate must be between 0 and 1, not {config.stop_rate:g}")
        demand(config.score_epsilon > 0, "stop_rate needs the noisy booleans: give score_epsilon a share of epsilon")


@cache  # one object for one setting, so that what was compiled with it is found again
def _make_optimizer(name: str, learning_rate: float) -> optax.GradientTransformation:
    factory = getattr(optax, name, None)
    try:
        made = factory(learning_rate=learning_rate) if callable(factory) else None
        if isinstance(made, optax.GradientTransformation):
            made.update(jnp.zeros(2), made.init(jnp.zeros(2)), jnp.zeros(2))  # some want more than a gradient
    except TypeError:
        made = None
    if not isinstance(made, optax.GradientTransformation):
        raise PgcError(f"'{name}' is not an optimiser of optax with a learning rate; try sgd, adam or rmsprop")
    return made
