"""Step 2 in NumPy, first half: plays episodes side by side in lanes.

A simulation on the host fills many lanes; a device uses one. What happens in a lane is determined,
to the last bit, by its own order (its θ, its place and its random numbers), and never by the lanes
beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from pgc.local_training import numpy_actions
from pgc.local_training.recipe import Recipe

DRAWS = 64
"""The number of steps for which random numbers are drawn at once."""


class Place(Protocol):
    """The environment T(ψ) of one agent, in which one episode at a time is played."""

    def reset(self) -> np.ndarray:
        """Begins an episode, and returns its first observation."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        """Returns observation, reward, terminated and truncated of one step."""

    def leave(self) -> None:
        """Marks the episode as over, so that the place is free for another one."""


class LanePolicy(Protocol):
    """A policy that holds one θ for each lane."""

    def stack(self, thetas: list[np.ndarray]) -> Any:
        """Returns several θ in the form that `each` takes."""

    def put(self, stack: Any, row: int, theta: np.ndarray) -> None:
        """Puts another θ into a row."""

    def keep(self, stack: Any, rows: np.ndarray) -> Any:
        """Returns the stack with these rows only."""

    def each(self, stack: Any, observations: np.ndarray) -> np.ndarray:
        """Returns the outputs of each θ at its own observation.

        A row is the same to the last bit, whatever the other rows are.
        """


class Order(NamedTuple):
    """One episode to play."""

    theta: np.ndarray
    place: Place
    rng: np.random.Generator | None
    """The generator for random actions; None if every action is the greedy one."""
    alpha: float
    greedy: bool


class History(NamedTuple):
    """One episode: the paper's history H_n."""

    observations: np.ndarray  # (T + 1, features)
    actions: np.ndarray  # (T,) or (T, numbers)
    rewards: np.ndarray  # (T,)
    terminated: bool


class OutOfTime(Exception):
    """Play was asked to stop before it had finished."""


class Lane:
    """An episode that is being played."""

    def __init__(self, which: int, order: Order) -> None:
        self.which, self.order = which, order
        self.now = order.place.reset()
        self.steps = 0
        self.history: History | None = None
        self._seen, self._actions, self._rewards = [self.now], [], []  # type: ignore[var-annotated]
        self._draws = np.empty((0, 0))

    def uniforms(self, count: int) -> np.ndarray:
        """Returns the uniform numbers in [0, 1) of one step, which no other lane influences."""
        assert self.order.rng is not None
        at = self.steps % DRAWS
        if at == 0:
            self._draws = self.order.rng.random((DRAWS, count))
        row: np.ndarray = self._draws[at]
        return row

    def step(self, action: Any, max_steps: int, fixed: bool) -> bool:
        """Takes one step; returns whether the lane is free afterwards.

        With `fixed`, a lane always takes `max_steps` steps. When its episode ends earlier, the
        remaining steps are played in new episodes, which are not recorded.
        """
        self.now, reward, terminated, truncated = self.order.place.step(action)
        self.steps += 1
        ended = terminated or truncated or self.steps >= max_steps
        if self.history is None:
            self._seen.append(self.now)
            self._actions.append(action)
            self._rewards.append(reward)
            if ended:
                self.history = History(
                    np.array(self._seen),
                    np.array(self._actions),
                    np.array(self._rewards),
                    bool(terminated),
                )
        if not ended:
            return False
        if fixed and self.steps < max_steps:
            self.now = self.order.place.reset()
            return False
        self.order.place.leave()
        return True


def play(
    orders: Iterable[Order],
    network: LanePolicy,
    recipe: Recipe,
    *,
    width: int,
    fixed_steps: bool = False,
    stop: Callable[[], bool] | None = None,
) -> list[History]:
    """Plays every order, up to `width` at a time, and returns the histories in the same order.

    When an episode ends, the next order takes its lane; it is not taken from the iterable before
    that. `stop` is called before each step; when it returns True, `OutOfTime` is raised.
    """
    waiting = enumerate(orders)
    lanes = [Lane(which, order) for which, order in islice(waiting, width)]
    stack = network.stack([lane.order.theta for lane in lanes])
    played: dict[int, History] = {}
    while lanes:
        if stop is not None and stop():
            raise OutOfTime
        outputs = network.each(stack, np.stack([lane.now for lane in lanes]))
        actions = _act(recipe, lanes, outputs)
        free = [
            row
            for row, (lane, action) in enumerate(zip(lanes, actions, strict=True))
            if lane.step(action, recipe.max_steps, fixed_steps)
        ]
        for row in free:
            done = lanes[row]
            assert done.history is not None
            played[done.which] = done.history
            for which, order in islice(waiting, 1):
                lanes[row] = Lane(which, order)
                network.put(stack, row, lanes[row].order.theta)
        kept = [row for row, lane in enumerate(lanes) if lane.which not in played]
        if len(kept) < len(lanes):
            stack = network.keep(stack, np.array(kept, int))
            lanes = [lanes[row] for row in kept]
    return [played[which] for which in range(len(played))]


def _act(recipe: Recipe, lanes: list[Lane], outputs: np.ndarray) -> np.ndarray:
    """Returns an action for each lane, in the world's units."""
    chosen = numpy_actions.greedy(recipe, outputs)
    drawn = [row for row, lane in enumerate(lanes) if lane.order.rng is not None]
    if drawn:
        u = np.array([lanes[row].uniforms(numpy_actions.uniforms(recipe)) for row in drawn])
        alpha = np.array([lanes[row].order.alpha for row in drawn])
        greedily = np.array([lanes[row].order.greedy for row in drawn])
        chosen[drawn] = numpy_actions.draw(recipe, outputs[drawn], u, alpha, greedily)
    return chosen
