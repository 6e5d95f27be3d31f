"""What a private environment T(ψ) is. A World is what everyone knows of it; its private part is ψ,
one value per agent.

A `CompiledWorld` has pure `reset` and `step` over (key, state, action, ψ), written for *one*
environment on scalars; batching is the caller's `vmap`. A `HostWorld` (`host.py`) makes Gymnasium
environments, which play on the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax

from pgc.spaces import Actions, Bounds

State = Any
"""A world's own state: a NamedTuple of scalars."""
Psi = Any
"""A world's private parameters ψ: a NamedTuple of scalars."""


class Transition(NamedTuple):
    """What one action led to."""

    state: State
    reward: jax.Array
    """The world's own reward r; the score ζ of an episode is its sum."""
    terminated: jax.Array
    """True in a terminal state. A time-out (`max_steps`) is not one."""


class World(ABC):
    """A family of Markov decision processes T(ψ), ψ ∈ Ψ, that differ in their dynamics only: what
    is public of it.
    """

    name: str
    observation_dim: int
    actions: Actions
    """Discrete, or continuous within bounds."""
    max_steps: int
    """An episode is cut here if no terminal state was reached."""
    score_threshold: float
    """Θ: an episode with at least this score is a success."""
    observation_bounds: Bounds
    """Public box in which observations usually lie, known before any agent reports, hence free of
    ε. A value outside is legal."""
    default_psi: Any
    """The world's usual parameters; its fields are the fields of ψ."""
    positive: tuple[str, ...] = ()
    """Fields of ψ that make no sense unless greater than 0."""
    default_population: tuple[str, ...] = ()
    """The variations this world is usually trained on, in the notation of `Population.parse`."""
    image: tuple[int, int, int] | None = None
    """Height, width and channels, where an observation is a picture."""


class CompiledWorld(World):
    """A world that plays inside a compiled program."""

    sketch_box: ClassVar[tuple[float, float, float, float]]
    """What a picture of a state shows: left, right, bottom, top, in the coordinates of `sketch`."""

    def __eq__(self, other: object) -> bool:
        """Worlds have no state: two of one class are the same, and share what was compiled for
        them.
        """
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @abstractmethod
    def reset(self, key: jax.Array, psi: Psi) -> State:
        """Draw s_0 from the initial state distribution ρ."""

    @abstractmethod
    def step(self, key: jax.Array, state: State, action: jax.Array, psi: Psi) -> Transition:
        """Move from s_t to s_{t+1} by T(ψ)."""

    @abstractmethod
    def observe(self, state: State) -> jax.Array:
        """What the policy sees of a state: a vector of `observation_dim` floats."""

    @abstractmethod
    def sketch(self, state: State) -> list[tuple[list[float], list[float]]]:
        """Lines (xs, ys) that draw a state, for pictures."""
