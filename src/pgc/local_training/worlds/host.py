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
from pgc.local_training.worlds.creator import Creator, close, find
from pgc.local_training.worlds.gymnasium_spaces import (
    Acting,
    Observation,
    acting_of,
    observation_of,
)
from pgc.spaces import Actions, Bounds

DEFAULT_STEPS = 1000
"""The time limit of an environment that has none of its own."""
PROBE_STEPS = 1000
HUGE = 1e6
"""A limit of an observation space that is at least this large is ignored."""
WIDER = 1.25
"""The factor by which the public box is wider than what the probe saw."""


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
    name: str, max_steps: int | None, threshold: float | None, bounds: tuple[str, ...] | None
) -> HostWorld:
    """Returns the world of that name.

    Where the public box is not given, a probe of the *default* environment finds it.
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

    def probe() -> np.ndarray:
        return box_around(_seen(env, observation, acting, limit, name), observation)

    if observation.image and bounds:
        raise PgcError(
            f"an observation of {name} is a picture: its bounds are those of a byte, and cannot be "
            "given"
        )
    box = () if observation.image else given_bounds(observation, name, bounds, probe)
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
        default_psi=psi(*map(float, usual.values())),
    )


def given_bounds(
    observation: Observation,
    name: str,
    given: tuple[str, ...] | None,
    probe: Callable[[], np.ndarray],
) -> Bounds:
    """Returns the public box in which observations usually lie.

    Bounds that are given (`INDEX=low:high`) are taken. The others come from a few episodes of
    random actions in the default environment, before there is any agent: they are public, cost no
    ε, and do not depend on any agent's ψ.
    """
    known = dict(_bound(text, observation.dim, name) for text in given or ())
    box = np.stack([observation.low, observation.high])
    if len(known) < observation.dim and observation.categories is None:
        box = probe()
    return tuple(known.get(i, (float(low), float(high))) for i, (low, high) in enumerate(box.T))


def box_around(seen: np.ndarray, observation: Observation) -> np.ndarray:
    """Returns a box (2, n) that is a little wider than what was seen (m, n), and never wider than
    the environment's own space.
    """
    low, high = seen.min(axis=0), seen.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2 * WIDER
    low, high = (
        np.maximum(middle - half, observation.low),
        np.minimum(middle + half, observation.high),
    )
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


def _seen(env: Any, observation: Observation, acting: Acting, limit: int, name: str) -> np.ndarray:
    """Returns the observations that random actions lead to in the default environment."""
    rng = np.random.default_rng(0)
    rows, since = [reset(env, observation, name, 0)], 0
    for _ in range(PROBE_STEPS):
        since += 1
        row, _, terminated, truncated = step(
            env, observation, acting, random_action(acting.actions, rng), name
        )
        rows.append(row)
        if terminated or truncated or since >= limit:
            rows.append(reset(env, observation, name, None))
            since = 0
    return np.asarray(rows, float)


def random_action(actions: Actions, rng: np.random.Generator) -> Any:
    """Draws an action uniformly from the action space."""
    return (
        rng.integers(actions.count)
        if hasattr(actions, "count")
        else rng.uniform(actions.low, actions.high)
    )


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
    """Takes one step, and returns observation, reward, terminated and truncated."""
    try:
        seen, reward, terminated, truncated, _ = env.step(acting.plain(action))
        row, reward = observation.flat(seen), float(reward)
    except Exception as error:
        raise EnvironmentFailed(f"{name} raised {in_one_line(error)} in step") from None
    if not (math.isfinite(reward) and np.isfinite(row).all()):
        raise EnvironmentFailed(
            f"{name} returned {'a reward' if not math.isfinite(reward) else 'an observation'} that "
            "is not finite"
        )
    return row, reward, bool(terminated), bool(truncated)


def _bound(text: str, dim: int, name: str) -> tuple[int, tuple[float, float]]:
    index, equals, ends = text.partition("=")
    try:
        at, (low, high) = int(index), (float(end) for end in ends.split(":"))
        if (
            not equals
            or not 0 <= at < dim
            or not (math.isfinite(low) and math.isfinite(high) and low < high)
        ):
            raise ValueError
    except ValueError:
        raise PgcError(
            f"'{text}' is not a bound; write INDEX=low:high, low < high, INDEX from 0 to {dim - 1} "
            f"(an observation of {name} has {dim} numbers)"
        ) from None
    return at, (low, high)
