"""Any Gymnasium environment as a world: `gymnasium:ID`, or `MODULE:CLASS` of one's own.

It plays on the host, step by step.
"""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from pgc.errors import PgcError, in_one_line
from pgc.local_training.worlds.base import DEFAULT_STEPS, World
from pgc.local_training.worlds.bounds import given_bounds
from pgc.local_training.worlds.creator import Creator, close, find
from pgc.local_training.worlds.gymnasium_spaces import (
    Acting,
    Observation,
    acting_of,
    observation_of,
)
from pgc.local_training.worlds.public_play import PUBLIC_STEPS, Scales, public_scales
from pgc.spaces import Actions, Bounds


class EnvironmentFailed(PgcError):
    """An environment raised an exception, or returned a number that is not finite."""


@dataclass(frozen=True, eq=False)
class HostWorld(World):
    """The public part of a Gymnasium environment, and how one is made for a ψ."""

    on_host: ClassVar[bool] = True
    name: str
    creator: Creator
    observation: Observation
    acting: Acting
    max_steps: int
    score_threshold: float
    observation_bounds: Bounds
    default_psi: Any
    offset: bool = False
    actions: Actions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", self.acting.actions)

    @property
    def observation_dim(self) -> int:  # type: ignore[override]
        """How many numbers an observation has."""
        return self.observation.dim

    @property
    def image(self) -> tuple[int, int, int] | None:  # type: ignore[override]
        """Height, width and channels of a picture; None for a vector."""
        return self.observation.image

    def make(self, psi: Any, *, render: bool = False) -> Any:
        """Returns T(ψ), an environment for one agent."""
        usual = self.default_psi
        changes = {
            f: float(v)
            for f, v in zip(psi._fields, psi, strict=True)
            if float(v) != float(getattr(usual, f))
        }
        return self.creator.create(changes, render=render)


@lru_cache(16)
def host_world(
    name: str,
    max_steps: int | None,
    threshold: float | None,
    bounds: tuple[str, ...] | None,
    public_steps: int = PUBLIC_STEPS,
) -> HostWorld:
    """Returns the world of that name.

    Where the public box is not given, public play in the *default* environment finds it.
    """
    creator = find(name)
    try:
        env = creator.create({})
        observation, acting = (
            observation_of(env.observation_space, name),
            acting_of(env.action_space, name),
        )
    except AttributeError as error:
        raise PgcError(f"'{name}' is no Gymnasium environment ({error})") from None
    usual = creator.usual
    spec = creator.spec
    limit = max_steps or getattr(spec, "max_episode_steps", None) or DEFAULT_STEPS
    reward_threshold = getattr(spec, "reward_threshold", None)
    psi: Any = namedtuple("Psi", list(usual))  # type: ignore[misc]

    def probe() -> Scales:
        usual = _Usual(env, observation, acting, int(limit), name)
        return public_scales(usual, acting.actions, public_steps)

    if observation.image and bounds:
        raise PgcError(
            f"an observation of {name} is a picture: its bounds are those of a byte, and cannot be "
            "given"
        )
    box, offset = (
        ((), False) if observation.image else given_bounds(observation, name, bounds, probe)
    )
    close(env)
    return HostWorld(
        name=name,
        creator=creator,
        observation=observation,
        acting=acting,
        max_steps=int(limit),
        score_threshold=float(
            threshold
            if threshold is not None
            else math.inf
            if reward_threshold is None
            else reward_threshold
        ),
        observation_bounds=box,
        offset=offset,
        default_psi=psi(*map(float, usual.values())),
    )


@dataclass
class _Usual:
    """The default environment, for public play."""

    env: Any
    observation: Observation
    acting: Acting
    limit: int
    name: str
    _steps: int = 0

    def reset(self, seed: int) -> np.ndarray:
        """Begins an episode, and returns its first observation."""
        self._steps = 0
        return reset(self.env, self.observation, self.name, seed)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool]:
        """Takes one step; returns observation, reward, and whether the episode ended."""
        self._steps += 1
        row, reward, terminated, truncated = step(
            self.env, self.observation, self.acting, action, self.name
        )
        return row, reward, terminated or truncated or self._steps >= self.limit


def reset(env: Any, observation: Observation, name: str, seed: int | None) -> np.ndarray:
    """Begins an episode, and returns its first observation."""
    try:
        seen, _ = env.reset(seed=seed)
        row = observation.flat(seen)
    except Exception as error:
        raise EnvironmentFailed(f"{name} raised {in_one_line(error)} in reset") from None
    if not np.isfinite(row).all():
        raise EnvironmentFailed(f"{name} returned a first observation that is not finite")
    return row


def step(
    env: Any, observation: Observation, acting: Acting, action: Any, name: str
) -> tuple[np.ndarray, float, bool, bool]:
    """Takes one step, and returns observation, reward, terminated and truncated.

    Raises `EnvironmentFailed` if the environment raises, or returns a number that is not finite.
    """
    try:
        row, reward, terminated, truncated = plain_step(env, observation, acting, action)
    except Exception as error:
        raise EnvironmentFailed(f"{name} raised {in_one_line(error)} in step") from None
    if not (math.isfinite(reward) and np.isfinite(row).all()):
        raise EnvironmentFailed(
            f"{name} returned {'a reward' if not math.isfinite(reward) else 'an observation'} that "
            "is not finite"
        )
    return row, reward, terminated, truncated


def plain_step(
    env: Any, observation: Observation, acting: Acting, action: Any
) -> tuple[np.ndarray, float, bool, bool]:
    """Takes one step of a Gymnasium environment, with vectors in and out; checks nothing."""
    seen, reward, terminated, truncated, _ = env.step(acting.plain(action))
    return observation.flat(seen), float(reward), bool(terminated), bool(truncated)
