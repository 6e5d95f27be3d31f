"""Step 2 for agents whose worlds play on the host: `definition.py` for Gymnasium environments, many
episodes side by side.

An answer is a pure function of its task: of θ, and of the address of its random numbers (seed,
trial, submission). It is the same to the last bit on every process and machine, whatever is
computed beside it, and however often it is computed. So work that is lost with a machine can be
done again, and gives the same gradient.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgc.errors import PgcError, in_one_line
from pgc.local_training.definition import LocalTraining
from pgc.local_training.numpy_episodes import History, Order, play
from pgc.local_training.numpy_estimator import coordinates, nearby, tried
from pgc.local_training.policies.on_host import HostPolicy
from pgc.local_training.recipe import Recipe
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import EnvironmentFailed, HostWorld, plain_step, reset
from pgc.numerics.randomness import Stream, host_address, host_rng
from pgc.wire.values import Played, Task

LANES = 64
"""The largest number of episodes that are played side by side."""
LANE_NUMBERS = 2**24
"""The most numbers that the θ of all lanes may have together: a long θ leaves fewer lanes."""
SPARE = 256
"""The largest number of idle environments that are kept for another episode."""


class Spare:
    """Idle environments that can be used for another episode, grouped by their ψ.

    When there are too many, those whose ψ has not been used for longest are closed.
    """

    def __init__(self) -> None:
        self._by_psi: OrderedDict[Any, list[Any]] = OrderedDict()
        self._held = 0

    def take(self, psi: Any) -> Any:
        """Returns an idle environment for this ψ, or None if there is none."""
        ready = self._by_psi.get(psi)
        if not ready:
            return None
        self._held -= 1
        return ready.pop()

    def give(self, psi: Any, env: Any) -> None:
        """Keeps an environment for another episode at this ψ."""
        self._by_psi.setdefault(psi, []).append(env)
        self._by_psi.move_to_end(psi)
        self._held += 1
        while self._held > SPARE:
            oldest = next(iter(self._by_psi))
            if self._by_psi[oldest]:
                close(self._by_psi[oldest].pop())
                self._held -= 1
            else:
                del self._by_psi[oldest]


@dataclass
class HostPlace:
    """The environment T(ψ) of one agent for one episode, borrowed from the spare ones."""

    world: HostWorld
    psi: Any
    seed: int
    """The seed with which the environment is reset."""
    spare: Spare
    _env: Any = None
    _steps: int = 0

    def reset(self) -> np.ndarray:
        """Begins the episode, and returns its first observation."""
        self._env = self.spare.take(self.psi) or self.world.make(self.psi)
        return reset(self._env, self.world.observation, self.world.name, self.seed)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        """Returns observation, reward, terminated and truncated of one step."""
        world = self.world
        self._steps += 1
        try:
            return plain_step(self._env, world.observation, world.acting, action)
        except Exception as error:
            where = f"step {self._steps} of an episode"
            raise EnvironmentFailed(
                f"{world.name} raised {in_one_line(error)} in {where}"
            ) from None

    def leave(self) -> None:
        """Gives the environment back, for another episode."""
        self.spare.give(self.psi, self._env)


@dataclass(frozen=True)
class HostAgents:
    """The agents of one problem, simulated on the host."""

    training: LocalTraining
    seed: int
    """The seed of the run."""
    network: HostPolicy
    spare: Spare = field(default_factory=lambda: Spare())

    @property
    def recipe(self) -> Recipe:
        """The recipe, which says what the agents do with θ."""
        return self.training.recipe

    @property
    def world(self) -> HostWorld:
        """The world in which the agents live."""
        assert isinstance(self.training.world, HostWorld)
        return self.training.world

    def train(self, tasks: Sequence[Task]) -> list[Played]:
        """Plays each submission's episodes, and computes one gradient from them."""
        orders: list[Order] = []
        tries = []
        for task in tasks:
            dim, episodes = self.training.dim if self.recipe.evolves else 0, self.training.episodes
            tries.append(tried(self._rng(task, Stream.RESET), dim, episodes))
            orders += self._orders(task, tries[-1])
        episodes_of = self.training.episodes_played
        histories = self.play(orders)
        return [
            self._made(task, histories[i * episodes_of : (i + 1) * episodes_of], xi)
            for i, (task, xi) in enumerate(zip(tasks, tries, strict=True))
        ]

    def scores(
        self, theta: np.ndarray, psi: Any, episodes: int, seed: int, first: int = 0
    ) -> np.ndarray:
        """Returns the scores of greedy episodes; every θ starts from the same states."""
        seeds = np.random.SeedSequence([seed, first]).generate_state(episodes).tolist()
        orders = [self.greedy_order(theta.astype(float), psi, s) for s in seeds]
        return np.array([e.rewards.sum() for e in self.play(orders)])

    def greedy_order(self, theta: np.ndarray, psi: Any, seed: int) -> Order:
        """Returns one greedy episode to play."""
        return Order(theta, HostPlace(self.world, psi, seed, self.spare), None, 0.0, True)

    def play(self, orders: Sequence[Order]) -> list[History]:
        """Plays every order; raises an error if a reward or an observation is not finite."""
        width = max(1, min(LANES, LANE_NUMBERS // len(orders[0].theta)))
        histories = play(orders, _Checked(self.network, self.world.name), self.recipe, width=width)
        for history in histories:
            if not (np.isfinite(history.rewards).all() and np.isfinite(history.observations).all()):
                what = "a reward" if np.isfinite(history.observations).all() else "an observation"
                raise EnvironmentFailed(f"{self.world.name} returned {what} that is not finite")
        return histories

    def _orders(self, task: Task, xi: np.ndarray) -> list[Order]:
        """Returns the episodes of one submission."""
        training, recipe, psi = self.training, self.recipe, self._psi(task)
        address = host_address(self.seed, task.trial, task.submission, Stream.WORLD)
        seeds = np.random.SeedSequence(address).generate_state(training.episodes_played).tolist()
        orders = []
        for e in range(training.episodes):
            theta = nearby(recipe, task.theta, task.basis, xi[:, e])
            rng = None if recipe.greedy and task.alpha == 0 else self._rng(task, Stream.PLAY, e)
            place = HostPlace(self.world, psi, seeds[e], self.spare)
            orders.append(Order(theta, place, rng, task.alpha, recipe.greedy))
        if recipe.score == "greedy":
            orders.append(self.greedy_order(task.theta, psi, seeds[-1]))
        return orders

    def _made(self, task: Task, episodes: list[History], xi: np.ndarray) -> Played:
        played, scored = (
            episodes[: self.training.episodes],
            episodes[-1] if self.recipe.score == "greedy" else episodes[0],
        )
        z = _explained(coordinates, self.recipe, task.theta, task.basis, played, xi, self.network)
        return Played(z, float(scored.rewards.sum()), sum(len(e.rewards) for e in episodes))

    def _psi(self, task: Task) -> Any:
        """Returns the agent's ψ, which is the same in all its submissions."""
        population = self.training.population
        return population.pick(
            np.random.default_rng([self.seed, task.trial, task.agent, Stream.PSI]).random(
                len(population.variations)
            )
        )

    def _rng(self, task: Task, stream: Stream, position: int = 0) -> np.random.Generator:
        return host_rng(self.seed, task.trial, task.submission, stream, position)


@dataclass(frozen=True)
class _Checked:
    """A policy whose outputs must be finite, and whose exceptions are reported in one line."""

    policy: HostPolicy
    world: str

    def stack(self, thetas: list[np.ndarray]) -> Any:
        return self.policy.stack(thetas)

    def put(self, stack: Any, row: int, theta: np.ndarray) -> None:
        self.policy.put(stack, row, theta)

    def keep(self, stack: Any, rows: np.ndarray) -> Any:
        return self.policy.keep(stack, rows)

    def each(self, stack: Any, observations: np.ndarray) -> np.ndarray:
        outputs = _explained(self.policy.each, stack, observations)
        if not np.isfinite(outputs).all():
            what = (
                "an observation that is"
                if not np.isfinite(observations).all()
                else "an observation that makes the policy's outputs"
            )
            raise EnvironmentFailed(f"{self.world} returned {what} not finite")
        return outputs


def _explained(work: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
    """Calls `work`, which may call a user's policy, and reports its exceptions in one line."""
    try:
        return work(*arguments)
    except PgcError:
        raise
    except Exception as error:
        raise PgcError(f"the policy raised {in_one_line(error)}") from None
