"""Readings of the paper: each settles every choice that the paper's text leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from pgc.config import TrainConfig, configure
from pgc.config.problem import build

BUFFER_SIZES = {"laplace": 1, "prs": 100, "none": 1}
"""|B| in the paper's tables."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read the paper."""

    key: str
    title: str
    laplace: str = "laplace"
    """The mechanism that the paper's "Laplace" is taken to be."""
    nonprivate_clip: float = 0.01
    """C at ε = ∞."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of `pgc train` that replace those of `--preset paper`."""

    def config(
        self, mechanism: str, epsilon: float, *, buffer_size: int | None = None, **run: Any
    ) -> TrainConfig:
        """Returns the config of one cell; `mechanism` is the paper's name for it."""
        settings: dict[str, Any] = {**self.settings, **run, "epsilon": epsilon}
        settings["mechanism"] = self.laplace if mechanism == "laplace" else mechanism
        settings["buffer_size"] = BUFFER_SIZES[mechanism] if buffer_size is None else buffer_size
        if mechanism == "none":
            settings["clip"] = self.nonprivate_clip
        return configure(preset="paper", **settings)


AS_PRINTED = Reading(key="printed", title="as printed")
END_REWARD = Reading(
    key="reward",
    title="printed, end reward",
    nonprivate_clip=1.0,
    settings={"reward": "end"},
)
CLOSEST = Reading(
    key="closest",
    title="closest reading",
    laplace="laplace-coordinatewise",
    nonprivate_clip=1.0,
    settings={"reward": "end", "action": "sampled", "bootstrap": "zero"},
)


def control_of(reading: Reading) -> Reading:
    """Returns the reading whose controls are also those of `reading`.

    Without a gradient, readings differ only in their noise and in how actions are chosen.
    """
    if set(reading.settings) - {"action", "reward", "bootstrap", "reduction"}:
        raise ValueError(f"the reading {reading.key} needs controls of its own")
    return CLOSEST if reading.settings.get("action") == CLOSEST.settings["action"] else AS_PRINTED


IN_WORDS = {
    "reward": {"step": "1 a step", "end": "−1 / +1 at the end", "failure": "−1 at failure"},
    "action": {"argmax": "argmax of π", "sampled": "sampled from π"},
    "bootstrap": {
        "always": "the network's, always",
        "zero": "0",
        "timeout": "the network's, on time-out",
    },
    "laplace": {
        "laplace": "L1 norm to C/2",
        "laplace-coordinatewise": "coordinates to ±C/2",
        "laplace-coordinatewise-wide": "coordinates to ±C",
        "laplace-l2": "L2 norm to C/2",
    },
    "initial": {"glorot": "Glorot uniform", "normal": "N(0, 0.1²)", "zeros": "zeros"},
    "reduction": {"sum": "sum over steps", "mean": "mean over steps"},
}
CHOICES = {"reward": "reward", "action": "action", "bootstrap": "V(s_T)",
           "laplace": "Laplace clip", "none": "clip at ε = ∞",
           "initial": "initial θ", "reduction": "loss"}  # fmt: skip
"""The choices that the text leaves open."""


def describe(reading: Reading) -> dict[str, str]:
    """Returns what a reading decides for each choice, in words."""
    config = reading.config("laplace", 1.0)
    words = {
        name: IN_WORDS[name][getattr(config, name)]
        for name in ("reward", "action", "bootstrap", "initial", "reduction")
    }
    words["laplace"] = IN_WORDS["laplace"][reading.laplace]
    words["none"] = (
        "unclipped"
        if reading.nonprivate_clip == math.inf
        else f"L1 norm to C/2, C = {reading.nonprivate_clip:g}"
    )
    return {name: words[name] for name in CHOICES}


@dataclass(frozen=True, kw_only=True)
class Variation:
    """The closest reading with one choice changed."""

    choice: str
    taken: str
    """What the closest reading decides."""
    instead: str
    reading: Reading
    touches: tuple[str, ...] = ("laplace", "prs", "none")
    """The mechanisms whose cells this choice can change; all other cells are those of the closest
    reading."""


def _vary(
    key: str, choice: str, touches: tuple[str, ...] = ("laplace", "prs", "none"), **how: Any
) -> Variation:
    settings = {**CLOSEST.settings, **how.pop("settings", {})}
    reading = replace(CLOSEST, key=key, settings=settings, **how)
    taken, instead = describe(CLOSEST)[choice], describe(reading)[choice]
    reading = replace(reading, title=f"{CHOICES[choice]}: {instead}")
    return Variation(
        choice=CHOICES[choice], taken=taken, instead=instead, reading=reading, touches=touches
    )


VARIATIONS = (
    _vary("reward-step", "reward", settings={"reward": "step"}),
    _vary("reward-failure", "reward", settings={"reward": "failure"}),
    _vary("action-argmax", "action", settings={"action": "argmax"}),
    _vary("clip-l1", "laplace", ("laplace",), laplace="laplace"),
    _vary("clip-l2", "laplace", ("laplace",), laplace="laplace-l2"),
    _vary("clip-wide", "laplace", ("laplace",), laplace="laplace-coordinatewise-wide"),
    _vary("none-tight", "none", ("none",), nonprivate_clip=0.01),
    _vary("none-free", "none", ("none",), nonprivate_clip=math.inf),
    _vary("bootstrap-always", "bootstrap", settings={"bootstrap": "always"}),
    _vary("bootstrap-timeout", "bootstrap", settings={"bootstrap": "timeout"}),
    _vary("initial-normal", "initial", settings={"initial": "normal"}),
    _vary("initial-zeros", "initial", settings={"initial": "zeros"}),
    _vary("loss-mean", "reduction", settings={"reduction": "mean"}),
)
OTHERS = tuple(
    Variation(
        choice="other readings", taken="several choices", instead=reading.title, reading=reading
    )
    for reading in (AS_PRINTED, END_REWARD)
)
"""Readings that differ from the closest in more than one choice."""


def true_epsilon(reading: Reading, mechanism: str, epsilon: float) -> float:
    """Returns the ε that truly holds for a cell of this reading."""
    return build(reading.config(mechanism, epsilon)).epsilon
