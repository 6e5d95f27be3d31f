"""Checks the values of a config. Each refusal is one line that says what to do."""

from __future__ import annotations

import math
import reprlib
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pgc.config import rules
from pgc.config.config import TrainConfig
from pgc.errors import PgcError
from pgc.local_training.worlds.base import World
from pgc.numerics.randomness import MAX_ITEMS


def demand(holds: bool, what: str) -> None:
    """Raises an error that says `what`, unless the condition holds."""
    if not holds:
        raise PgcError(what)


def fits_world(config: TrainConfig, world: World) -> None:
    """Checks what can only be said once the world is known."""
    longest = world.max_steps * ((config.local_episodes or rules.MOST_EPISODES) + 1)
    demand(
        (config.submissions / config.workers + 1) * longest < 2**31,
        "submissions × local_episodes is more than the virtual clock of 31 bits can count; lower "
        "one of them",
    )
    demand(
        config.score_epsilon == 0 or world.score_threshold < math.inf,
        f"score_epsilon pays for telling whether a score reaches Θ, and {world.name} has no Θ: "
        "give --threshold",
    )


def validate(config: TrainConfig) -> None:
    """Checks the type of every value and the range of every number.

    Names, such as those of the world and the mechanism, are checked where they are looked up.
    """
    kinds = get_type_hints(TrainConfig)
    for f in fields(config):
        value = getattr(config, f.name)
        demand(
            _is_a(value, kinds[f.name]),
            f"{f.name} cannot be {reprlib.repr(value)}; pgc train --help says what it takes",
        )
        demand(not (isinstance(value, float) and math.isnan(value)), f"{f.name} is not a number")
    demand(
        config.epsilon > 0,
        f"epsilon must be greater than 0 (inf for no privacy), not {config.epsilon:g}",
    )
    demand(
        config.score_epsilon >= 0,
        f"score_epsilon must be 0 (no score) or more, not {config.score_epsilon:g}",
    )
    demand(
        config.score_epsilon < config.epsilon and config.score_epsilon < math.inf,
        f"score_epsilon is a share of epsilon and must be less than it: {config.score_epsilon:g} ≥ "
        f"{config.epsilon:g}",
    )
    for name in (
        "submissions_per_agent", "workers", "subspace_dim", "uses_per_report", "stop_window",
        "submissions", "trials", "eval_episodes", "public_steps",
    ):  # fmt: skip
        demand(
            getattr(config, name) >= 1, f"{name} must be at least 1, not {getattr(config, name)}"
        )
    for name in ("buffer_size", "local_episodes", "reduced_dim", "code_size", "max_steps"):
        value = getattr(config, name)
        demand(value is None or value >= 1, f"{name} must be at least 1, not {value}")
    demand(
        config.max_staleness is None or config.max_staleness >= 0,
        f"max_staleness must be 0 or more, not {config.max_staleness}",
    )
    demand(
        config.submissions + config.workers < MAX_ITEMS // config.workers,
        f"submissions must be fewer than {MAX_ITEMS // config.workers - config.workers} with "
        f"{config.workers} workers",
    )
    demand(
        0 <= config.seed < 2**32,
        f"seed must be between 0 and 2³² − 1 (it has 32 bits), not {config.seed}",
    )
    demand(
        all(h >= 1 for h in config.hidden or ()),
        f"hidden widths must be at least 1, not {config.hidden}",
    )
    demand(
        config.discount is None or 0 <= config.discount <= 1,
        f"discount must be between 0 and 1, not {config.discount}",
    )
    demand(
        0 <= config.alpha_start <= 1,
        f"alpha_start must be between 0 and 1, not {config.alpha_start:g}",
    )
    demand(
        config.alpha_decay > 0, f"alpha_decay must be greater than 0, not {config.alpha_decay:g}"
    )
    demand(
        0 <= config.average_from < 1,
        f"average_from must be at least 0 and less than 1, not {config.average_from:g}",
    )
    demand(
        config.learning_rate is None or 0 < config.learning_rate < math.inf,
        f"learning_rate must be greater than 0, not {config.learning_rate}",
    )
    demand(
        config.own_policy is None or 1 <= config.own_policy <= 2**20,
        f"own_policy is the length of θ: from 1 to {2**20}, not {config.own_policy}",
    )
    demand(
        0 <= config.trim < 0.5,
        f"trim is a share of the buffer at each end: from 0 to less than 0.5, not {config.trim:g}",
    )
    demand(
        config.report_norm is None or config.report_norm > 0,
        f"report_norm must be greater than 0 (inf for none), not {config.report_norm}",
    )
    demand(
        config.step_decay is None or config.step_decay > 0,
        f"step_decay must be greater than 0 (inf for none), not {config.step_decay}",
    )
    demand(
        not config.public or config.epsilon == math.inf,
        "public is for runs in a simulator, which need no privacy: give --epsilon inf as well",
    )
    demand(
        config.spread is None or config.spread > 0,
        f"spread must be greater than 0, not {config.spread}",
    )
    demand(
        config.output_cap is None or config.output_cap > 0,
        f"output_cap must be greater than 0 (inf for none), not {config.output_cap}",
    )
    demand(
        config.estimator != "evolution"
        or config.local_episodes is None
        or config.local_episodes >= 2,
        "evolution compares local episodes: give it at least 2 of them, or use --estimator "
        "policy-gradient",
    )
    if config.stop_rate is not None:
        demand(
            0 < config.stop_rate < 1, f"stop_rate must be between 0 and 1, not {config.stop_rate:g}"
        )
        demand(
            config.score_epsilon > 0,
            "stop_rate needs the noisy booleans: give score_epsilon a share of epsilon",
        )


def _is_a(value: Any, kind: Any) -> bool:
    """Returns whether a value has the type of its field, also if it comes from YAML or Python."""
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
