"""Step 2 for agents whose worlds play on the host: `definition.py` for Gymnasium environments, many
episodes side by side.

An answer is a pure function of what was asked: of θ, and of the address of its random numbers
(seed, trial, submission). Which process or machine gives it, beside which others, and how often it
is asked, changes no bit of it. So work that is lost with a machine is done again, and gives the
same gradient.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pgc.errors import PgcError, in_one_line
from pgc.local_training.definition import LocalTraining
from pgc.local_training.numpy_episodes import History, Order, play
from pgc.local_training.numpy_estimator import coordinates, nearby, tried
from pgc.local_training.policies.on_host import HostPolicy
from pgc.local_training.recipe import Recipe
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import EnvironmentFailed, HostWorld, reset
from pgc.numerics.randomness import Stream, host_address, host_rng
from pgc.wire.values import Played

LANES = 64
"""Episodes side by side."""
LANE_NUMBERS = 2**24
"""Fewer, if their θ would have more numbers than this together."""
SPARE = 256
"""Environments that are kept for another episode."""


class Task(NamedTuple):
    """One submission that is wanted.

    All of it is public but the trial's seed, which is a simulation's.
    """

    trial: int
    n: int
    """Which submission of the trial."""
    agent: int
    """Whose."""
    theta: np.ndarray
    basis: np.ndarray | None
    alpha: float


class Spare:
    """Environments that are ready for another episode, by their ψ.

    Those of a ψ that was not seen for long are closed.
    """

    def __init__(self) -> None:
        self._by_psi: OrderedDict[Any, list[Any]] = OrderedDict()
        self._held = 0

    def take(self, psi: Any) -> Any:
        """One for this ψ, or None."""
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
    """T(ψ) of one agent for one episode: an environment that is borrowed from the spare ones."""

    world: HostWorld
    psi: Any
    seed: int
    """Of the environment."""
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
            seen, reward, terminated, truncated, _ = self._env.step(world.acting.plain(action))
            return world.observation.flat(seen), float(reward), bool(terminated), bool(truncated)
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
    """Agents of one problem."""

    training: LocalTraining
    seed: int
    """Of the run."""
    network: HostPolicy
    spare: Spare = field(default_factory=lambda: Spare())

    @property
    def recipe(self) -> Recipe:
        """What they do with θ."""
        return self.training.recipe

    @property
    def world(self) -> HostWorld:
        """The world in which the agents live."""
        assert isinstance(self.training.world, HostWorld)
        return self.training.world

    def answer(self, asked: Sequence[Task]) -> list[Played]:
        """Plays each submission's episodes, and makes one gradient of them."""
        orders: list[Order] = []
        tries = []
        for ask in asked:
            dim, episodes = self.training.dim if self.recipe.evolves else 0, self.training.episodes
            tries.append(tried(self._rng(ask, Stream.RESET), dim, episodes))
            orders += self._orders(ask, tries[-1])
        episodes_of = self.training.episodes_played
        histories = self.play(orders)
        return [
            self._made(ask, histories[i * episodes_of : (i + 1) * episodes_of], xi)
            for i, (ask, xi) in enumerate(zip(asked, tries, strict=True))
        ]

    def scores(
        self, theta: np.ndarray, psi: Any, episodes: int, seed: int, first: int = 0
    ) -> np.ndarray:
        """Returns scores of greedy episodes; all policies start from the same states."""
        seeds = np.random.SeedSequence([seed, first]).generate_state(episodes).tolist()
        orders = [self.greedy_order(theta.astype(float), psi, s) for s in seeds]
        return np.array([e.rewards.sum() for e in self.play(orders)])

    def greedy_order(self, theta: np.ndarray, psi: Any, seed: int) -> Order:
        """Returns one greedy episode to play."""
        return Order(theta, HostPlace(self.world, psi, seed, self.spare), None, 0.0, True)

    def play(self, orders: Sequence[Order]) -> list[History]:
        """Plays every order; refuses what is not finite."""
        width = max(1, min(LANES, LANE_NUMBERS // len(orders[0].theta)))
        histories = play(orders, _Checked(self.network, self.world.name), self.recipe, width=width)
        for history in histories:
            if not (np.isfinite(history.rewards).all() and np.isfinite(history.observations).all()):
                what = "a reward" if np.isfinite(history.observations).all() else "an observation"
                raise EnvironmentFailed(f"{self.world.name} returned {what} that is not finite")
        return histories

    def _orders(self, ask: Task, xi: np.ndarray) -> list[Order]:
        """Returns the episodes of one submission."""
        training, recipe, psi = self.training, self.recipe, self._psi(ask)
        address = host_address(self.seed, ask.trial, ask.n, Stream.WORLD)
        seeds = np.random.SeedSequence(address).generate_state(training.episodes_played).tolist()
        orders = []
        for e in range(training.episodes):
            theta = nearby(recipe, ask.theta, ask.basis, xi[:, e])
            rng = None if recipe.greedy and ask.alpha == 0 else self._rng(ask, Stream.PLAY, e)
            place = HostPlace(self.world, psi, seeds[e], self.spare)
            orders.append(Order(theta, place, rng, ask.alpha, recipe.greedy))
        if recipe.score == "greedy":
            orders.append(self.greedy_order(ask.theta, psi, seeds[-1]))
        return orders

    def _made(self, ask: Task, episodes: list[History], xi: np.ndarray) -> Played:
        played, scored = (
            episodes[: self.training.episodes],
            episodes[-1] if self.recipe.score == "greedy" else episodes[0],
        )
        z = _explained(coordinates, self.recipe, ask.theta, ask.basis, played, xi, self.network)
        return Played(z, float(scored.rewards.sum()), sum(len(e.rewards) for e in episodes))

    def _psi(self, ask: Task) -> Any:
        """Of the agent: the same over all its submissions."""
        population = self.training.population
        return population.pick(
            np.random.default_rng([self.seed, ask.trial, ask.agent, Stream.PSI]).random(
                len(population.variations)
            )
        )

    def _rng(self, ask: Task, stream: Stream, position: int = 0) -> np.random.Generator:
        return host_rng(self.seed, ask.trial, ask.n, stream, position)


@dataclass(frozen=True)
class _Checked:
    """A policy whose outputs must be finite, and whose exceptions are told in one line."""

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
                else "what makes the policy's outputs"
            )
            raise EnvironmentFailed(f"{self.world} returned {what} not finite")
        return outputs


def _explained(work: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
    """Calls what may call a policy of a user's own, and says in one line what it raises."""
    try:
        return work(*arguments)
    except PgcError:
        raise
    except Exception as error:
        raise PgcError(f"the policy raised {in_one_line(error)}") from None
