"""What every device does with the θ it is handed. Public, and shipped with the application: an aggregator cannot change it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from pgc.errors import PgcError

if TYPE_CHECKING:
    from pgc.local_training.definition import LocalTraining

Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Step 2 in numbers and names; the fields mean what they mean in `TrainConfig`."""

    bounds: Bounds
    """The public box in which observations usually lie, one pair for each number of an observation."""
    actions: int | Bounds
    """How many there are; or, where they are continuous, the range of each."""
    max_steps: int
    """Of an episode."""
    score_threshold: float
    """Θ."""
    hidden: tuple[int, ...] = (16,)
    biases: bool = False
    normalize: bool = True
    estimator: Literal["policy-gradient", "evolution"] = "evolution"
    spread: float = 1.0
    std: float = 0.5
    """Of a continuous action, in units of half its range."""
    action: Literal["sampled", "argmax"] = "sampled"
    score: Literal["training", "greedy"] = "greedy"
    discount: float = 0.99
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    reward: Literal["step", "end", "failure"] = "step"
    bootstrap: Literal["zero", "always", "timeout"] = "timeout"
    baseline: Literal["critic", "none", "local"] = "local"
    reduction: Literal["sum", "mean"] = "sum"
    standardize: Literal["no", "center", "scale"] = "scale"
    image: tuple[int, int, int] | None = None
    """Height, width and channels, where an observation is a picture (and `bounds` is empty)."""

    @property
    def outputs(self) -> int:
        """Of the policy: logits, or means."""
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
    def card(self) -> dict[str, Any]:
        """What is the same in every world, as plain data: what a service publishes beside θ."""
        return {name: getattr(self, name) for name in CARD}

    @classmethod
    def read(cls, card: Any, *, bounds: Bounds, actions: int | Bounds, max_steps: int, score_threshold: float) -> Recipe:
        """A published recipe, for this device's own world. Names from fixed lists and numbers; whatever else is refused.

        Who publishes it decides how useful reports are, never what they cost: ε is the mechanism's, and the ledger's.
        """
        if not isinstance(card, dict) or set(card) != set(CARD):
            raise PgcError("the service's recipe is not one that this version of pgc knows")
        hints = get_type_hints(cls)
        for name, value in card.items():
            choices = get_args(hints[name]) if get_origin(hints[name]) is Literal else ()
            if choices and not (isinstance(value, str) and value in choices):
                raise PgcError(f"the service's recipe says {name} = {value!r}; this version of pgc knows {', '.join(choices)}")
            if hints[name] is bool and not isinstance(value, bool):
                raise PgcError(f"the service's recipe says {name} = {value!r}, which is neither true nor false")
            if hints[name] is float and not (type(value) in (int, float) and abs(value) < 1e6):
                raise PgcError(f"the service's recipe says {name} = {value!r}, which is no number for it")
        widths = card["hidden"]
        fine = isinstance(widths, list | tuple) and len(widths) <= 8
        if not fine or not all(type(w) is int and 1 <= w <= 2**14 for w in widths):
            raise PgcError(f"the service's recipe has hidden layers of {widths!r}")
        world: dict[str, Any] = dict(bounds=bounds, actions=actions, max_steps=max_steps, score_threshold=score_threshold)
        return cls(**world, **(card | {"hidden": tuple(widths)}))

    @classmethod
    def of(cls, training: LocalTraining) -> Recipe:
        """What the agents of a simulation do, for real devices."""
        world, policy, estimator = training.world, training.policy, training.estimator
        loss, actions = estimator.loss, policy.actions
        return cls(
            bounds=tuple((float(low), float(high)) for low, high in world.observation_bounds),
            actions=actions.count if hasattr(actions, "count") else tuple(zip(actions.low, actions.high, strict=True)),
            max_steps=world.max_steps,
            score_threshold=world.score_threshold,
            hidden=getattr(policy, "hidden", ()),
            biases=getattr(policy, "biases", False),
            normalize=getattr(policy, "bounds", None) is not None,
            image=world.image,
            estimator="evolution" if estimator.greedy else "policy-gradient",
            spread=getattr(estimator, "spread", 1.0),
            std=getattr(actions, "std", 0.5),
            action=training.action,
            score=training.score,
            discount=loss.discount,
            value_weight=loss.value_weight,
            entropy_weight=loss.entropy_weight,
            reward=loss.reward,
            bootstrap=loss.bootstrap,
            baseline=loss.baseline,
            reduction=loss.reduction,
            standardize=loss.standardize,
        )


CARD = tuple(f.name for f in fields(Recipe) if f.name not in ("bounds", "actions", "max_steps", "score_threshold", "image"))
"""The fields that do not belong to a world."""
