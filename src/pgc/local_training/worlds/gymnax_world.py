"""Gymnax environments as compiled worlds: `gymnax:ID`. ψ has the fields of their parameters."""

from __future__ import annotations

import math
from collections import namedtuple
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.errors import PgcError, require
from pgc.local_training.worlds.base import (
    DEFAULT_STEPS,
    CompiledWorld,
    Psi,
    State,
    Transition,
)
from pgc.local_training.worlds.bounds import given_bounds
from pgc.local_training.worlds.gymnasium_spaces import (
    Acting,
    Observation,
    acting_of,
    observation_of,
)
from pgc.local_training.worlds.public_play import PUBLIC_STEPS, Scales, public_scales
from pgc.spaces import Bounds, Gaussian

MOST_SCALARS = 64
"""The most numbers of a state that are kept apart, each as an array of its own in the compiled
program: that is fast for few, and cannot be compiled for many."""
TIME_LIMIT = "max_steps_in_episode"
NEVER = 2**30


class GymnaxWorld(CompiledWorld):
    """A Gymnax environment as a compiled world.

    The environment's own time limit is disabled, because it would count as a terminal state;
    `max_steps` limits episodes instead.
    """

    sketch_box = (0.0, 1.0, 0.0, 1.0)

    def __init__(
        self,
        name: str,
        max_steps: int | None,
        threshold: float | None,
        bounds: tuple[str, ...] | None,
        public_steps: int,
    ) -> None:
        gymnax = require("gymnax", "gymnax")
        try:
            self._env, self._params = gymnax.make(name.partition(":")[2])
        except ValueError as error:
            raise PgcError(
                f"Gymnax has no environment '{name.partition(':')[2]}' "
                f"({' '.join(str(error).split())[:120]})"
            ) from None
        numbers = {
            f: v
            for f, v in vars(self._params).items()
            if isinstance(v, int | float) and not isinstance(v, bool)
        }
        self.name = name
        self.max_steps = int(max_steps or numbers.pop(TIME_LIMIT, DEFAULT_STEPS))
        numbers.pop(TIME_LIMIT, None)
        self.score_threshold = math.inf if threshold is None else threshold
        psi: Any = namedtuple("Psi", list(numbers))  # type: ignore[misc]
        self.default_psi = psi(*map(float, numbers.values()))
        _, state = self._env.reset_env(jax.random.key(0), self._parameters(self.default_psi))
        leaves, self._tree = jax.tree.flatten(state)
        self._shapes = [(jnp.shape(leaf), jnp.asarray(leaf).dtype) for leaf in leaves]
        self._scalars = sum(math.prod(shape) for shape, _ in self._shapes) <= MOST_SCALARS
        observation, self._acting = self._spaces()
        self.actions, self.observation_dim = self._acting.actions, observation.dim
        self.observation_bounds, self.offset = self._box(observation, bounds, public_steps)

    def __eq__(self, other: object) -> bool:
        return self is other  # `gymnax_world` makes one world for each setting

    def __hash__(self) -> int:
        return id(self)

    def reset(self, key: jax.Array, psi: Psi) -> State:
        """Draws s_0 as the Gymnax environment does."""
        return self._apart(self._env.reset_env(key, self._parameters(psi))[1])

    def step(self, key: jax.Array, state: State, action: jax.Array, psi: Psi) -> Transition:
        """Moves to s_{t+1} as the Gymnax environment does."""
        if isinstance(self.actions, Gaussian):
            action = jnp.clip(
                action, jnp.asarray(self.actions.low), jnp.asarray(self.actions.high)
            ).reshape(self._acting.shape)
        _, after, reward, done, _ = self._env.step_env(
            key, self._together(state), action, self._parameters(psi)
        )
        return Transition(
            self._apart(after),
            jnp.asarray(reward, jnp.float32).reshape(()),
            jnp.asarray(done, bool).reshape(()),
        )

    def observe(self, state: State) -> jax.Array:
        """Returns what the policy sees of a state, as a vector."""
        return jnp.asarray(self._env.get_obs(self._together(state)), jnp.float32).reshape(-1)

    def sketch(self, state: State) -> list[tuple[list[float], list[float]]]:
        """Raises an error: a Gymnax environment has no sketch of its states."""
        raise PgcError(f"{self.name} has no sketch of its states: leave out --gif")

    def _parameters(self, psi: Psi) -> Any:
        given = psi._asdict()
        if hasattr(self._params, TIME_LIMIT):
            given[TIME_LIMIT] = NEVER
        return self._params.replace(**given)

    def _apart(self, state: Any) -> tuple[jax.Array, ...]:
        """Returns a state as scalars if they are few, else as its arrays."""
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(state)]
        if not self._scalars:
            return tuple(
                leaf.astype(kind) for leaf, (_, kind) in zip(leaves, self._shapes, strict=True)
            )
        return tuple(number for leaf in leaves for number in leaf.reshape(-1))

    def _together(self, state: State) -> Any:
        if not self._scalars:
            return jax.tree.unflatten(self._tree, list(state))
        numbers, leaves = list(state), []
        for shape, kind in self._shapes:
            some = [numbers.pop(0) for _ in range(math.prod(shape))]
            leaves.append(jnp.stack(some).reshape(shape).astype(kind))
        return jax.tree.unflatten(self._tree, leaves)

    def _spaces(self) -> tuple[Observation, Acting]:
        """Returns the spaces of observations and actions, converted from Gymnax to Gymnasium."""
        spaces = require("gymnasium.spaces", "gymnax")

        def as_gymnasium(space: Any) -> Any:
            if type(space).__name__ == "Discrete":
                return spaces.Discrete(int(space.n))
            if type(space).__name__ != "Box":
                return space
            low, high = (
                np.broadcast_to(np.asarray(end, np.float32), space.shape)
                for end in (space.low, space.high)
            )
            return spaces.Box(low, high, dtype=np.float32)

        return (
            observation_of(as_gymnasium(self._env.observation_space(self._params)), self.name),
            acting_of(as_gymnasium(self._env.action_space(self._params)), self.name),
        )

    def _box(
        self, observation: Observation, given: tuple[str, ...] | None, public_steps: int
    ) -> tuple[Bounds, bool]:
        """Returns the public box, found by play in the default environment (`public_play.py`), and
        whether 0 is no usual value of some number.
        """

        def probe() -> Scales:
            return public_scales(_Usual(self), self.actions, public_steps)

        return given_bounds(observation, self.name, given, probe)


class _Usual:
    """The default environment, step by step, for public play."""

    def __init__(self, world: GymnaxWorld) -> None:
        self._most, self._state = world.max_steps, None
        self._taken = self._seed = 0

        # one call each: most of the time is spent on calls
        def reset(seed: jax.Array) -> Any:
            state = world.reset(jax.random.key(seed), world.default_psi)
            return state, world.observe(state)

        def step(seed: jax.Array, taken: jax.Array, state: Any, action: jax.Array) -> Any:
            key = jax.random.fold_in(jax.random.key(seed), taken)
            state, reward, terminated = world.step(key, state, action, world.default_psi)
            return state, (world.observe(state), reward, terminated)

        self._reset, self._step = jax.jit(reset), jax.jit(step)

    def reset(self, seed: int) -> np.ndarray:
        """Begins an episode, and returns its first observation."""
        self._taken, self._seed = 0, seed
        self._state, seen = self._reset(seed)
        return np.asarray(seen, float)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool]:
        """Takes one step; returns observation, reward, and whether the episode ended."""
        self._taken += 1
        self._state, made = self._step(self._seed, self._taken, self._state, action)
        seen, reward, terminated = jax.device_get(made)
        return seen.astype(float), float(reward), bool(terminated) or self._taken >= self._most


@lru_cache(16)
def gymnax_world(
    name: str,
    max_steps: int | None,
    threshold: float | None,
    bounds: tuple[str, ...] | None,
    public_steps: int = PUBLIC_STEPS,
) -> GymnaxWorld:
    """Returns the world for a setting, always the same object, so that programs are reused."""
    return GymnaxWorld(name, max_steps, threshold, bounds, public_steps)
