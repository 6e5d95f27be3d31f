"""Private environments T(ψ). A World is the public part of one; ψ is the private part, with one
value per agent.

A `CompiledWorld` has pure functions `reset` and `step` of (key, state, action, ψ), written for
*one* environment; callers batch them with `vmap`. A `HostWorld` (`host.py`) makes
Gymnasium environments, which play on the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax

from pgc.errors import PgcError
from pgc.spaces import Actions, Bounds, Categorical

DEFAULT_STEPS = 1000
"""The time limit of an environment that has none of its own."""
State = Any
"""A world's own state: a tree of arrays, of scalars where it can be: those are the fastest."""
Psi = Any
"""A world's private parameters ψ: a NamedTuple of scalars."""


class Transition(NamedTuple):
    """The result of one action."""

    state: State
    reward: jax.Array
    """The world's own reward r; the score ζ of an episode is its sum."""
    terminated: jax.Array
    """True in a terminal state. A time-out (`max_steps`) is not one."""


class World(ABC):
    """The public part of a family of Markov decision processes T(ψ), ψ ∈ Ψ, that differ only in
    their dynamics.
    """

    name: str
    observation_dim: int
    actions: Actions
    """The action space: discrete, or continuous within bounds."""
    max_steps: int
    """The number of steps after which an episode without a terminal state is cut off."""
    score_threshold: float
    """Θ: an episode with at least this score is a success."""
    observation_bounds: Bounds
    """The public box in which observations usually lie. It is known before any agent reports, so it
    costs no ε. A value may lie outside."""
    usual_bounds: Bounds | None = None
    """The box that a policy is scaled by unless other bounds are given: how far observations vary
    in good play, where that differs much from `observation_bounds`."""
    offset: bool = False
    """Whether public play showed that 0 is no usual value of some number of an observation."""
    on_host: ClassVar[bool] = False
    """Whether it plays step by step in Python, and not inside a compiled JAX program."""
    default_psi: Any
    """The world's usual parameters; its fields are the fields of ψ."""
    positive: tuple[str, ...] = ()
    """The fields of ψ that must be greater than 0."""
    default_population: tuple[str, ...] = ()
    """The variations this world is usually trained on, in the notation of `Population.parse`."""
    image: tuple[int, int, int] | None = None
    """Height, width and channels, where an observation is a picture."""

    @property
    def in_recipe(self) -> dict[str, Any]:
        """The fields of a `Recipe` that depend on the world, but for `image`."""
        actions = self.actions
        return dict(
            bounds=tuple((float(low), float(high)) for low, high in self.observation_bounds),
            actions=actions.count
            if isinstance(actions, Categorical)
            else tuple(zip(actions.low, actions.high, strict=True)),
            max_steps=self.max_steps,
            score_threshold=self.score_threshold,
        )


class CompiledWorld(World):
    """A world that plays inside a compiled program."""

    sketch_box: ClassVar[tuple[float, float, float, float]] = (-1.0, 1.0, -1.0, 1.0)
    """What a picture of a state shows: left, right, bottom, top, in the coordinates of `sketch`."""

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class with the same settings: such worlds share programs."""
        return isinstance(other, CompiledWorld) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    @property
    def _settings(self) -> tuple[Any, ...]:
        """What may differ between worlds of one class."""
        return type(self), self.observation_bounds, self.max_steps, self.score_threshold

    @abstractmethod
    def reset(self, key: jax.Array, psi: Psi) -> State:
        """Draws s_0 from the initial state distribution ρ."""

    @abstractmethod
    def step(self, key: jax.Array, state: State, action: jax.Array, psi: Psi) -> Transition:
        """Moves from s_t to s_{t+1} by T(ψ)."""

    @abstractmethod
    def observe(self, state: State) -> jax.Array:
        """Returns what the policy sees of a state: a vector of `observation_dim` floats."""

    def sketch(self, state: State) -> list[tuple[list[float], list[float]]]:
        """Returns the lines (xs, ys) that draw a state in a picture. Only films need it."""
        raise PgcError(f"{self.name} cannot be drawn: give it a method sketch, or leave out --gif")
