"""Step 2 on a device, with NumPy alone: plays θ in the device's own world, and computes the numbers
that will be randomised.

A device plays in one lane of `numpy_episodes.play`, and `numpy_estimator.py` computes its numbers.
They leave the device only through `Device`, which randomises them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pgc.local_training.numpy_episodes import History, Order, play
from pgc.local_training.numpy_estimator import coordinates, nearby, tried
from pgc.local_training.numpy_network import Network
from pgc.local_training.recipe import Recipe
from pgc.wire import Offer


class Environment(Protocol):
    """A device's world, with the interface of a Gymnasium environment."""

    def reset(self) -> tuple[Any, Any]:
        """Begins an episode; returns its first observation, and anything (which is ignored)."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        """Takes one step; returns observation, reward, terminated, truncated, and anything."""


@dataclass(frozen=True)
class Home:
    """A device's environment as a `Place`."""

    environment: Environment

    def reset(self) -> np.ndarray:
        """Begins an episode, and returns its first observation."""
        return np.asarray(self.environment.reset()[0], float).ravel()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Returns observation, reward, terminated and truncated of one step."""
        plain = int(action) if action.ndim == 0 else action.astype(np.float32)
        seen, reward, terminated, truncated, _ = self.environment.step(plain)
        return np.asarray(seen, float).ravel(), float(reward), bool(terminated), bool(truncated)

    def leave(self) -> None:
        """Does nothing: the next episode is played in the same environment."""


@dataclass(frozen=True)
class NumpyPlayer:
    """Plays offers in an environment, following a recipe.

    With `fixed_steps`, each episode takes exactly `max_steps` steps of the environment, even if it
    ends earlier, so that the number of steps says nothing about the device's world. (The surplus
    steps are played and not recorded.) The time to compute the gradient still varies by some
    milliseconds; the slots of a `Device` hide that.
    """

    environment: Environment
    recipe: Recipe
    fixed_steps: bool = True
    most_memory: int = 2**28
    """The most bytes that playing may take. An offer that could need more, in any world, is refused
    before it is played."""
    most_operations: float = 1e11
    """The most multiplications and additions that one report may take. An offer that could need
    more is refused."""

    def objection(self, offer: Offer) -> str | None:
        """Says why this offer cannot be played here, from what is public; None if it can."""
        if offer.theta.size != self.recipe.dim:
            return "the offer's policy is not one that this device can play"
        bytes_, operations = most_work(self.recipe, offer)
        if bytes_ > self.most_memory:
            return (
                f"playing could take {bytes_ / 2**20:.0f} MiB; this device gives "
                f"{self.most_memory / 2**20:.0f} MiB"
            )
        if operations > self.most_operations:
            return (
                f"playing could take {operations:.1e} operations; this device gives "
                f"{self.most_operations:.1e}"
            )
        return None

    def play(self, offer: Offer, stop: Callable[[], bool] | None = None) -> tuple[np.ndarray, bool]:
        """Returns the coordinates z to randomise, and whether the score reached Θ."""
        recipe, theta = self.recipe, offer.theta.astype(float)
        # seeded by the operating system; it decides what is played, never the noise of a report
        rng = np.random.default_rng()
        xi = tried(rng, offer.query.dim if recipe.evolves else 0, offer.episodes)
        episodes = self.episodes(self._orders(offer, theta, xi, rng), stop)
        scored = episodes.pop() if recipe.score == "greedy" else episodes[0]
        z = coordinates(recipe, theta, offer.basis, episodes, xi)
        return z, bool(scored.rewards.sum() >= recipe.score_threshold)

    def episodes(
        self, orders: Iterator[Order], stop: Callable[[], bool] | None = None
    ) -> list[History]:
        """Plays orders one after the other."""
        return play(
            orders,
            Network(self.recipe),
            self.recipe,
            width=1,
            fixed_steps=self.fixed_steps,
            stop=stop,
        )

    def _orders(
        self, offer: Offer, theta: np.ndarray, xi: np.ndarray, rng: np.random.Generator
    ) -> Iterator[Order]:
        """Yields the local episodes, and then the scored episode if it is a separate one."""
        home, recipe = Home(self.environment), self.recipe
        for e in range(offer.episodes):
            near = nearby(recipe, theta, offer.basis, xi[:, e])
            yield Order(near, home, rng, offer.alpha, recipe.greedy)
        if recipe.score == "greedy":
            yield Order(theta, home, None, 0.0, True)


def most_work(recipe: Recipe, offer: Offer) -> tuple[int, float]:
    """Returns the bytes and the operations that one report takes at most, in any world.

    They follow from public numbers alone, so that an offer that is refused for its size is refused
    by every device.
    """
    dim, asked, steps = recipe.dim, offer.query.dim, recipe.max_steps
    episodes = offer.episodes + (recipe.score == "greedy")
    seen, acted = len(recipe.bounds), 1 if isinstance(recipe.actions, int) else recipe.outputs
    widths = seen + sum(recipe.hidden) + recipe.outputs + 1
    numbers = episodes * (steps + 1) * (seen + acted + 1)  # histories
    numbers += (steps + 1) * (seen + acted + 1 + 60)  # one of them as a list, with its objects
    numbers += 3 * episodes * steps * (3 + 2 * seen)  # features of the fit to the returns
    numbers += 8 * dim + (dim * asked if offer.basis is not None else 0)
    operations = 2.0 * episodes * steps * dim
    if recipe.evolves:
        numbers += 3 * asked * episodes + 3 * episodes**2
        operations += 2.0 * episodes * asked * (dim + episodes)
    else:
        numbers += 6 * (steps + 1) * widths  # forward and backward pass of one episode
        operations += 6.0 * episodes * steps * dim
    return 8 * numbers, operations
