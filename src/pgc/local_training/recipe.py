"""The recipe: what every device does with the θ that it receives.

A recipe is public. It is shipped with the application, or read from the card that a service
publishes. Whoever publishes it decides what is asked of devices: which numbers they compute from
their private data, and how much work that is. It does not decide how much ε a report costs: the
mechanism and the ledger do. An application that does not want to leave the choice of a recipe to a
service ships its own `Recipe`, or pins the one it agreed to by its `fingerprint`.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pgc.errors import PgcError

Bounds = tuple[tuple[float, float], ...]

STD_FLOOR = 1e-6
"""The least deviation to divide returns by, so that returns that are all alike are only centred."""

BASELINE_RIDGE = 1e-3
"""The ridge of the local baseline, as a share of the mean diagonal; it keeps a fit to few steps
finite."""


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """The options of the loss, including the choices that the paper's text leaves open.

    The fields have the same meaning as in `TrainConfig`.
    """

    discount: float = 0.99
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    reward: Literal["step", "end", "failure"] = "step"
    bootstrap: Literal["zero", "always", "timeout"] = "always"
    reduction: Literal["sum", "mean"] = "sum"
    standardize: Literal["no", "center", "scale"] = "no"
    baseline: Literal["critic", "none", "local"] = "critic"
    """What takes the place of V(s_t) in the advantage A: the network's value (`critic`), nothing
    (`none`), or a fit by the agent to its own episodes (`local`, see `baseline.py`)."""

    @property
    def critic(self) -> bool:
        """Whether the network's value V is used as the baseline and trained.

        The two go together: a value that is not trained would only add noise.
        """
        return self.baseline == "critic"

    @property
    def fits(self) -> bool:
        """Whether a fit to the returns is subtracted from them: a local baseline, or their mean."""
        return self.baseline == "local" or self.standardize != "no"


@dataclass(frozen=True, kw_only=True)
class Recipe(LossOptions):
    """All settings of step 2, as numbers and names.

    Config, engines, devices and service hold this one value. The fields have the same meaning as
    in `TrainConfig`.
    """

    bounds: Bounds
    """The public box in which observations usually lie: (low, high) for each number of an
    observation."""
    actions: int | Bounds
    """The number of discrete actions; or the range (low, high) of each continuous one."""
    max_steps: int
    """The largest number of steps in an episode."""
    score_threshold: float
    """Θ: an episode with at least this score is a success."""
    hidden: tuple[int, ...] = (16,)
    activation: Literal["relu", "tanh"] = "relu"
    biases: bool = False
    normalize: bool = True
    estimator: Literal["policy-gradient", "evolution"] = "evolution"
    spread: float = 1.0
    std: float = 0.5
    """The standard deviation of a continuous action, in units of half its range."""
    action: Literal["sampled", "argmax"] = "sampled"
    score: Literal["training", "greedy"] = "greedy"
    bootstrap: Literal["zero", "always", "timeout"] = "timeout"
    baseline: Literal["critic", "none", "local"] = "local"
    standardize: Literal["no", "center", "scale"] = "scale"
    image: tuple[int, int, int] | None = None
    """Height, width and channels, where an observation is a picture (and `bounds` is empty)."""

    @property
    def outputs(self) -> int:
        """The number of the policy's outputs: logits of discrete actions, or means of others."""
        return self.actions if isinstance(self.actions, int) else len(self.actions)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(outputs, inputs) of each layer, in the order in which θ holds them."""
        widths = (len(self.bounds), *self.hidden)
        shared = list(zip(widths[1:], widths[:-1], strict=True))
        return [*shared, (self.outputs, widths[-1]), (1, widths[-1])]

    @property
    def dim(self) -> int:
        """d, the length of θ."""
        return sum(out * (into + self.biases) for out, into in self.shapes)

    @property
    def fingerprint(self) -> str:
        """Returns 16 hexadecimal digits that stand for the published part of this recipe."""
        text = json.dumps(self.card, sort_keys=True, default=list)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def card(self) -> dict[str, Any]:
        """The settings that do not depend on the world, as plain data: a service publishes them.

        A field with the value that older devices assume is left out, so that they can read the
        card.
        """
        every = {name: getattr(self, name) for name in CARD}
        return {name: value for name, value in every.items() if UNSTATED.get(name) != value}

    @property
    def play(self) -> dict[str, Any]:
        """The settings that belong to the world, as plain data: a service publishes them, so that
        a device that lives in another one notices before it pays. None is an infinite number.
        """

        def plain(value: float) -> float | None:
            return float(value) if math.isfinite(value) else None

        def box(bounds: Bounds) -> list[list[float | None]]:
            return [[plain(low), plain(high)] for low, high in bounds]

        actions = self.actions if isinstance(self.actions, int) else box(self.actions)
        return {
            "bounds": box(self.bounds),
            "actions": actions,
            "max_steps": self.max_steps,
            "score_threshold": plain(self.score_threshold),
        }

    @classmethod
    def of_card(cls, card: Any) -> Recipe:
        """Returns the recipe of a service's whole card, for a device whose world is the one that
        the card describes.

        Cards of before version 2 do not describe it: then `read` takes it from the device.
        """
        play = card.get("play") if isinstance(card, dict) else None
        if not isinstance(play, dict):
            raise PgcError(
                "the service's card does not say how its world is played: it is older than this "
                "pgc, or its policy is one that only its own devices know"
            )
        made = cls.read(card.get("recipe"), **_world(play))
        check_play(card, made)
        return made

    @classmethod
    def read(
        cls,
        card: Any,
        *,
        bounds: Bounds,
        actions: int | Bounds,
        max_steps: int,
        score_threshold: float,
    ) -> Recipe:
        """Returns the recipe of a published card, completed for this device's own world.

        A card holds numbers and names from fixed lists; anything else is refused. Whoever publishes
        it decides what is asked of this device, not how much ε a report costs: the mechanism and
        the ledger decide that.
        """
        if isinstance(card, dict):
            card = UNSTATED | card
        if not isinstance(card, dict) or set(card) != set(CARD):
            raise PgcError("the service's recipe is not one that this version of pgc knows")
        hints = get_type_hints(cls)
        for name, value in card.items():
            choices = get_args(hints[name]) if get_origin(hints[name]) is Literal else ()
            if choices and not (isinstance(value, str) and value in choices):
                raise PgcError(
                    f"the service's recipe says {name} = {value!r}; this version of pgc knows "
                    f"{', '.join(choices)}"
                )
            if hints[name] is bool and not isinstance(value, bool):
                raise PgcError(
                    f"the service's recipe says {name} = {value!r}, which is neither true nor false"
                )
            if hints[name] is float and not (type(value) in (int, float) and abs(value) < 1e6):
                raise PgcError(
                    f"the service's recipe says {name} = {value!r}, which is no number within ±1e6"
                )
        widths = card["hidden"]
        fine = isinstance(widths, list | tuple) and len(widths) <= 8
        if not fine or not all(type(w) is int and 1 <= w <= 2**14 for w in widths):
            raise PgcError(
                f"the service's recipe has hidden layers of {widths!r}; at most 8 are possible, "
                "of 1 to 16384 units each"
            )
        world: dict[str, Any] = dict(
            bounds=bounds, actions=actions, max_steps=max_steps, score_threshold=score_threshold
        )
        return cls(**world, **(card | {"hidden": tuple(widths)}))

    @property
    def loss(self) -> LossOptions:
        """The options of the loss alone; programs compiled for them do not depend on the rest."""
        return LossOptions(**{f.name: getattr(self, f.name) for f in fields(LossOptions)})

    @property
    def evolves(self) -> bool:
        """Whether agents try out policies near θ instead of computing a policy gradient."""
        return self.estimator == "evolution"

    @property
    def greedy(self) -> bool:
        """Whether training episodes are played greedily."""
        return self.evolves or self.action == "argmax"

    @classmethod
    def of(cls, training: Any) -> Recipe:
        """Returns the recipe of a simulation's agents (`problem.training`), for real devices."""
        recipe: Recipe = training.recipe
        return recipe


def check_play(card: dict[str, Any], recipe: Recipe) -> None:
    """Refuses a card whose world is played otherwise than this device's, whose recipe is given."""
    theirs = card.get("play")
    if theirs is None:  # the card is older
        return
    if not isinstance(theirs, dict):
        raise PgcError("the service's card is not one that this version of pgc knows")
    for name, mine in recipe.play.items():
        if theirs.get(name) != mine:
            raise PgcError(
                f"the service trains for a world with {name} = {_short(theirs.get(name))}, and "
                f"this device's has {_short(mine)}; nothing was sent and no ε was spent"
            )


def _world(play: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a card that belong to the world; refuses what is none."""

    def number(value: Any, missing: float) -> float:
        if value is None:
            return missing
        if type(value) not in (int, float) or not math.isfinite(value):
            raise PgcError(f"the service's card has {_short(value)} where a number belongs")
        return float(value)

    def box(bounds: Any) -> Bounds:
        if not isinstance(bounds, list) or len(bounds) > 2**16:
            raise PgcError(f"the service's card has {_short(bounds)} where a box belongs")
        pairs = [pair if isinstance(pair, list) and len(pair) == 2 else [0, ""] for pair in bounds]
        return tuple((number(low, -math.inf), number(high, math.inf)) for low, high in pairs)

    actions, steps = play.get("actions"), play.get("max_steps")
    if type(actions) is int and not 1 <= actions <= 2**16:
        raise PgcError(f"the service's card has {actions} actions")
    if type(steps) is not int or not 1 <= steps <= 10**9:
        raise PgcError(f"the service's card has episodes of {_short(steps)} steps")
    return {
        "bounds": box(play.get("bounds")),
        "actions": actions if type(actions) is int else box(actions),
        "max_steps": steps,
        "score_threshold": number(play.get("score_threshold"), math.inf),
    }


def _short(value: Any) -> str:
    """Returns a value of a card as one line that is fit to print."""
    text = "".join(c for c in str(value) if c.isprintable())
    return text if len(text) <= 60 else text[:60] + "…"


CARD = tuple(
    f.name
    for f in fields(Recipe)
    if f.name not in ("bounds", "actions", "max_steps", "score_threshold", "image")
)
"""The names of the fields that do not depend on the world."""
UNSTATED = {"activation": "relu"}
"""The values of fields that older cards do not have."""
