"""Any Gymnasium environment as a world: `gymnasium:ID`, or `MODULE:CLASS` of one's own.

It plays on the host, step by step.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pgc.errors import PgcError, in_one_line
from pgc.local_training.worlds.base import World
from pgc.local_training.worlds.bounds import parse_bounds
from pgc.local_training.worlds.creator import Creator, close, find
from pgc.local_training.worlds.gymnasium_spaces import (
    Acting,
    Observation,
    acting_of,
    observation_of,
)
from pgc.local_training.worlds.public_play import PUBLIC_STEPS, Scales, public_scales
from pgc.spaces import Actions, Bounds

DEFAULT_STEPS = 1000
"""The time limit of an environment that has none of its own."""
FAR = 2.0
"""A mean that is more than this many standard deviations from 0 is the middle of a box."""
HUGE = 1e6
"""A limit of an observation space that is at least this large is ignored."""


class EnvironmentFailed(PgcError):
    """An environment raised an exception, or returned a number that is not finite."""


@dataclass(frozen=True, eq=False)
class HostWorld(World):
    """The public part of a Gymnasium environment, and how one is made for a ψ."""

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


def given_bounds(
    observation: Observation,
    name: str,
    given: tuple[str, ...] | None,
    probe: Callable[[], Scales],
) -> tuple[Bounds, bool]:
    """Returns the public box in which observations usually lie, and whether 0 is no usual value of
    some number.

    Bounds that are given (`INDEX=low:high`) are taken. The others come from play in the default
    environment, before there is any agent (`public_play.py`): they are public, cost no ε, and do
    not depend on any agent's ψ.
    """
    known, offset = parse_bounds(given, observation.dim, name), False
    box = np.stack([observation.low, observation.high])
    if len(known) < observation.dim and observation.categories is None:
        scales = probe()
        box = box_around(scales, observation)
        away = np.abs(scales.mean) > scales.deviation
        offset = any(away[i] for i in range(observation.dim) if i not in known)
    bounds = (known.get(i, (float(low), float(high))) for i, (low, high) in enumerate(box.T))
    return tuple(bounds), offset


def box_around(scales: Scales, observation: Observation) -> np.ndarray:
    """Returns the box (2, n) of observations that vary as `scales` says.

    It has 0 in its middle and reaches one standard deviation beyond the mean, because what is
    wanted of a number is often that it becomes 0, and play that is not yet good may never have been
    there (a lander that falls does not see the ground for long). If 0 is far from all values, the
    mean is in the middle. The largest values would be a poor scale: a lander that crashes turns
    twenty times as fast as one that flies.
    """
    middle, half = scales
    far = np.abs(middle) > FAR * half
    low = np.where(far, middle - half, -np.abs(middle) - half)
    high = np.where(far, middle + half, np.abs(middle) + half)
    # For a number that never changed, or by less than a float32 can tell, take the space's own
    # limits, or an interval around it.
    flat = high - low < 1e-5 * np.maximum(np.abs(middle), 1e-4)
    wide = (observation.high > observation.low) & (
        np.maximum(np.abs(observation.low), np.abs(observation.high)) < HUGE
    )
    about = np.maximum(1.0, 1e-3 * np.abs(middle))
    low = np.where(flat, np.where(wide, observation.low, middle - about), low)
    high = np.where(flat, np.where(wide, observation.high, middle + about), high)
    return np.stack([low, high])


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
