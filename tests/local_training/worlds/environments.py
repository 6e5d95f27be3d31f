"""Environments of one's own, as users write them, and some that misbehave."""

from __future__ import annotations

import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """A point on a line: push it left (1) or right (2), stay near 0. `drag` is derived in the constructor."""

    metadata = {"render_modes": ["rgb_array"]}
    WIND = 0.0
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2, start=1)

    def __init__(self, push: float = 0.1, pause: float = 0.0, render_mode=None):
        self.push, self.pause, self.render_mode = push, pause, render_mode
        self.mass = 2
        self.drag = 0.1 / self.mass
        self.blown = self.WIND * 10

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v = self.np_random.uniform(-0.5, 0.5), 0.0
        return np.array([self.x, self.v], np.float32), {}

    def step(self, action):
        assert action in (1, 2)
        if self.pause:
            time.sleep(self.pause)
        self.v += (
            (self.push if action == 2 else -self.push) / self.mass - self.drag * self.v + self.blown
        )
        self.x += self.v
        return np.array([self.x, self.v], np.float32), 1.0, abs(self.x) > 1, False, {}

    def render(self):
        return np.full((40, 60, 3), int(127 + 100 * np.clip(self.x, -1, 1)), np.uint8)


class Endless(Walk):
    """Never ends by itself."""

    def step(self, action):
        seen, reward, _, _, _ = super().step(action)
        return np.clip(seen, -1, 1), reward, False, False, {}


class Cut(Endless):
    """Ends itself after five steps, by a time limit of its own."""

    def reset(self, **given):
        self.t = 0
        return super().reset(**given)

    def step(self, action):
        self.t += 1
        return *super().step(action)[:3], self.t >= 5, {}


class Steered(gymnasium.Env):
    """Two continuous actions, of which the first must follow what is seen."""

    observation_space = spaces.Box(-1, 1, (1, 3), np.float64)
    action_space = spaces.Box(
        np.array([[-2], [0]], np.float32), np.array([[2], [1]], np.float32), (2, 1)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = self.np_random.uniform(-1, 1, (1, 3))
        return self.seen, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = -float(abs(action[0, 0] - 2 * self.seen[0, 0]))
        self.seen = self.np_random.uniform(-1, 1, (1, 3))
        return self.seen, reward, False, False, {}


class Corridor(gymnasium.Env):
    """Discrete observations: go to the end of a corridor of four places."""

    observation_space = spaces.Discrete(4, start=3)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 3, {}

    def step(self, action):
        self.at = min(3, max(0, self.at + (1 if action else -1)))
        return 3 + self.at, -1.0, self.at == 3, False, {}


class Catch(gymnasium.Env):
    """Pictures: a ball falls; stand under it."""

    observation_space = spaces.Box(0, 255, (12, 12, 1), np.uint8)
    action_space = spaces.Discrete(3)

    def _picture(self):
        picture = np.zeros((12, 12, 1), np.uint8)
        picture[self.y : self.y + 3, self.x : self.x + 3] = 255
        picture[-3:, self.at : self.at + 5] = 255
        return picture

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.y, self.at = int(self.np_random.integers(10)), 0, 4
        return self._picture(), {}

    def step(self, action):
        self.at, self.y = int(np.clip(self.at + 2 * (int(action) - 1), 0, 7)), self.y + 2
        over = self.y >= 8
        return self._picture(), float(over and abs(self.at + 1 - self.x) <= 2), over, False, {}


class Raises(Walk):
    """Fails now and then."""

    def step(self, action):
        if self.np_random.random() < 0.01:
            raise RuntimeError("the motor\nis hot")
        return super().step(action)


class NotANumber(Walk):
    """Sees what is not there."""

    def step(self, action):
        seen, *rest = super().step(action)
        return seen * (np.nan if self.np_random.random() < 0.01 else 1), *rest


class NoReward(Walk):
    """Has a reward that is no number."""

    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, float("nan"), *rest


class Dies(Walk):
    """Ends its process, as a simulator in C may, if a file is there, and removes the file first."""

    def step(self, action):
        path = os.environ.get("PGC_TEST_DIE", "")
        if path and os.path.exists(path) and self.np_random.random() < 0.05:
            os.unlink(path)
            os._exit(9)
        return super().step(action)


class AlwaysDies(Walk):
    """Ends every process."""

    def step(self, action):
        os._exit(9)


class OfParts(Walk):
    """Observations of parts: where it is, which side that is, and both again in a tuple."""

    observation_space = spaces.Dict(
        {
            "here": Walk.observation_space,
            "side": spaces.Discrete(2),
            "again": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]),
        }
    )

    def reset(self, **given):
        seen, info = super().reset(**given)
        return self.parts(seen), info

    def step(self, action):
        seen, *rest = super().step(action)
        return self.parts(seen), *rest

    def parts(self, seen):
        side = int(seen[0] > 0)
        return {
            "here": seen,
            "side": side,
            "again": (np.array([side, 1 - side]), np.array([side, 2])),
        }


class OfText(Walk):
    """Observations with a part that is no vector."""

    observation_space = spaces.Dict(
        {"here": Walk.observation_space, "said": spaces.Sequence(spaces.Discrete(2))}
    )


class ManyActions(Walk):
    """Actions of parts."""

    action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])


class Unbounded(Walk):
    """Actions without bounds."""

    action_space = spaces.Box(-np.inf, np.inf, (1,))


class Stubborn(Walk):
    """Does not keep what it is told."""

    def __init__(self):
        super().__init__()
        self.__dict__["mass"] = 3


def none():
    """Not an environment."""
    return object()


class WrongObservation(Walk):
    """Sees more than its space says."""

    def step(self, action):
        seen, *rest = super().step(action)
        return np.append(seen, 0), *rest


class Forgets(Walk):
    """Begins every episode with a mass of its own."""

    def reset(self, **given):
        self.mass = 2
        return super().reset(**given)


class Odd(Walk):
    """Has numbers that are nobody's ψ."""

    def __init__(self):
        super().__init__()
        self.best, self.made = float("nan"), time.time_ns()


class Far(Walk):
    """Sees large numbers that hardly change, and one that never does."""

    observation_space = spaces.Box(np.float32(-3e38), np.float32(3e38), (2,), np.float32)

    def step(self, action):
        return np.array([1.7e9, 3.0], np.float32), *super().step(action)[1:]

    def reset(self, **given):
        super().reset(**given)
        return np.array([1.7e9, 3.0], np.float32), {}
