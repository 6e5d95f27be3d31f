"""Private environments T(ψ). A World is the public part of one; ψ is the private part, with one
value per agent.

A `CompiledWorld` has pure functions `reset` and `step` of (key, state, action, ψ), written for
*one* environment on scalars; callers batch them with `vmap`. A `HostWorld` (`host.py`) makes
Gymnasium environments, which play on the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax

from pgc.spaces import Actions, Bounds, Categorical

State = Any
"""A world's own state: a NamedTuple of scalars."""
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

    sketch_box: ClassVar[tuple[float, float, float, float]]
    """What a picture of a state shows: left, right, bottom, top, in the coordinates of `sketch`."""

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class and have the same box: such worlds share programs."""
        return (
            type(self) is type(other)
            and isinstance(other, CompiledWorld)
            and self.observation_bounds == other.observation_bounds
        )

    def __hash__(self) -> int:
        return hash((type(self), self.observation_bounds))

    @abstractmethod
    def reset(self, key: jax.Array, psi: Psi) -> State:
        """Draws s_0 from the initial state distribution ρ."""

    @abstractmethod
    def step(self, key: jax.Array, state: State, action: jax.Array, psi: Psi) -> Transition:
        """Moves from s_t to s_{t+1} by T(ψ)."""

    @abstractmethod
    def observe(self, state: State) -> jax.Array:
        """Returns what the policy sees of a state: a vector of `observation_dim` floats."""

    @abstractmethod
    def sketch(self, state: State) -> list[tuple[list[float], list[float]]]:
        """Returns the lines (xs, ys) that draw a state in a picture."""
