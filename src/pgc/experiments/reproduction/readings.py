"""What the paper's text may mean: a reading settles every choice that it leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from pgc.config import TrainConfig, configure
from pgc.problem import build

SIZES = {"laplace": 1, "prs": 100, "none": 1}
"""|B| in the paper's tables."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read the paper."""

    key: str
    title: str
    laplace: str = "laplace"
    """The mechanism that its "Laplace" is taken to be."""
    nonprivate_clip: float = 0.01
    """C at ε = ∞."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of `pgc train --preset paper`."""

    def config(self, mechanism: str, epsilon: float, *, buffer_size: int | None = None, **run: Any) -> TrainConfig:
        """The run of one cell; `mechanism` is the paper's word for it."""
        settings: dict[str, Any] = {**self.settings, **run, "epsilon": epsilon}
        settings["mechanism"] = self.laplace if mechanism == "laplace" else mechanism
        settings["buffer_size"] = SIZES[mechanism] if buffer_size is None else buffer_size
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
    """Whose controls serve a reading: without a gradient nothing is left of it but the noise and the way to act."""
    return CLOSEST if reading.settings.get("action") == CLOSEST.settings["action"] else AS_PRINTED


@dataclass(frozen=True, kw_only=True)
class Variation:
    """The closest reading with one choice made otherwise."""

    choice: str
    taken: str
    """What the closest reading takes."""
    instead: str
    reading: Reading
    touches: tuple[str, ...] = ("laplace", "prs", "none")
    """The mechanisms whose cells this choice can change; the others are those of the closest reading."""


def _vary(
    choice: str, taken: str, instead: str, key: str, touches: tuple[str, ...] = ("laplace", "prs", "none"), **how: Any
) -> Variation:
    settings = how.pop("settings", {})
    reading = replace(CLOSEST, key=key, title=f"{choice}: {instead}", settings={**CLOSEST.settings, **settings}, **how)
    return Variation(choice=choice, taken=taken, instead=instead, reading=reading, touches=touches)


VARIATIONS = (
    _vary("reward", "−1 / +1 at the end", "1 a step", "reward-step", settings={"reward": "step"}),
    _vary("reward", "−1 / +1 at the end", "−1 at failure", "reward-failure", settings={"reward": "failure"}),
    _vary("action", "sampled from π", "argmax of π", "action-argmax", settings={"action": "argmax"}),
    _vary("Laplace clip", "coordinates to ±C/2", "L1 norm to C/2 (printed)", "clip-l1", ("laplace",), laplace="laplace"),
    _vary("Laplace clip", "coordinates to ±C/2", "L2 norm to C/2", "clip-l2", ("laplace",), laplace="laplace-l2"),
    _vary(
        "Laplace clip",
        "coordinates to ±C/2",
        "coordinates to ±C",
        "clip-wide",
        ("laplace",),
        laplace="laplace-coordinatewise-wide",
    ),
    _vary("clip at ε = ∞", "C = 1", "C = 0.01", "none-tight", ("none",), nonprivate_clip=0.01),
    _vary("clip at ε = ∞", "C = 1", "unclipped", "none-free", ("none",), nonprivate_clip=math.inf),
    _vary("V(s_T)", "0", "the network's, always", "bootstrap-always", settings={"bootstrap": "always"}),
    _vary("V(s_T)", "0", "the network's, on time-out", "bootstrap-timeout", settings={"bootstrap": "timeout"}),
    _vary("initial θ", "Glorot uniform", "N(0, 0.1²)", "initial-normal", settings={"initial": "normal"}),
    _vary("initial θ", "Glorot uniform", "zeros", "initial-zeros", settings={"initial": "zeros"}),
    _vary("loss", "sum over steps", "mean over steps", "loss-mean", settings={"reduction": "mean"}),
)


OTHERS = tuple(
    Variation(choice="other readings", taken="several choices", instead=reading.title, reading=reading)
    for reading in (AS_PRINTED, END_REWARD)
)
"""Readings that differ from the closest in more than one choice."""


def true_epsilon(reading: Reading, mechanism: str, epsilon: float) -> float:
    """What a report of this reading really promises for the gradient."""
    return build(reading.config(mechanism, epsilon)).epsilon
