"""Step 2 for agents whose worlds play on the host: `definition.py` for Gymnasium environments, many
episodes side by side.

An answer is a pure function of what was asked: of θ, and of the address of its random numbers
(seed, trial, submission). Which process or machine gives it, beside which others, and how often it
is asked, changes no bit of it. So work that is lost with a machine is done again, and gives the
same gradient.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pgc.errors import PgcError, in_one_line
from pgc.local_training import numpy_actions
from pgc.local_training.definition import LocalTraining
from pgc.local_training.numpy_player import History, coordinates, lift, tried
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
DRAWS = 64
"""Steps for which random numbers are drawn at once."""
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


class Order(NamedTuple):
    """One episode to play."""

    theta: np.ndarray
    psi: Any
    seed: int
    """Of the environment."""
    rng: np.random.Generator | None
    """Of the actions; None: none is drawn."""
    alpha: float
    greedy: bool


@dataclass
class Lane:
    """An episode that is being played."""

    which: int
    order: Order
    env: Any
    seen: list[np.ndarray]
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    draws: np.ndarray | None = None


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
        """Play, and make one gradient of each submission's episodes."""
        training, recipe = self.training, self.recipe
        evolve, greedy = recipe.evolves, recipe.greedy
        orders: list[Order] = []
        tries = []
        for ask in asked:
            xi = (
                tried(self._rng(ask, Stream.RESET), training.dim, training.episodes)
                if evolve
                else np.zeros((0, training.episodes))
            )
            psi = self._psi(ask)
            seeds = (
                np.random.SeedSequence(host_address(self.seed, ask.trial, ask.n, Stream.WORLD))
                .generate_state(training.episodes_played)
                .tolist()
            )
            for e in range(training.episodes):
                theta = (
                    ask.theta + recipe.spread * lift(ask.basis, xi[:, e]) if evolve else ask.theta
                )
                rng = None if greedy and ask.alpha == 0 else self._rng(ask, Stream.PLAY, e)
                orders.append(Order(theta, psi, seeds[e], rng, ask.alpha, greedy))
            if recipe.score == "greedy":
                orders.append(Order(ask.theta, psi, seeds[-1], None, 0.0, True))
            tries.append(xi)
        episodes = self.play(orders)
        each = training.episodes_played
        return [
            self._made(ask, episodes[i * each : (i + 1) * each], xi)
            for i, (ask, xi) in enumerate(zip(asked, tries, strict=True))
        ]

    def scores(
        self, theta: np.ndarray, psi: Any, episodes: int, seed: int, first: int = 0
    ) -> np.ndarray:
        """Of greedy episodes; all policies start from the same states."""
        seeds = np.random.SeedSequence([seed, first]).generate_state(episodes).tolist()
        orders = [Order(theta.astype(float), psi, s, None, 0.0, True) for s in seeds]
        return np.array([e.rewards.sum() for e in self.play(orders)])

    def play(self, orders: Sequence[Order]) -> list[History]:
        """Every episode, LANES at a time: when one ends, the next one takes its place."""
        waiting = deque(enumerate(orders))
        width = max(1, min(LANES, LANE_NUMBERS // len(orders[0].theta)))
        lanes = [self._begin(*waiting.popleft()) for _ in range(min(width, len(waiting)))]
        stack = self.network.stack([lane.order.theta for lane in lanes])
        played: list[Any] = [None] * len(orders)
        while lanes:
            observations = np.stack([lane.seen[-1] for lane in lanes])
            outputs = self._by_policy(self.network.each, stack, observations)
            if not np.isfinite(outputs).all():
                what = (
                    "an observation that is"
                    if not np.isfinite(observations).all()
                    else "what makes the policy's outputs"
                )
                raise EnvironmentFailed(f"{self.world.name} returned {what} not finite")
            actions = self._act(lanes, outputs)
            over = [
                lane
                for lane, action in zip(lanes, actions, strict=True)
                if self._step(lane, action, played)
            ]
            if not over:
                continue
            for row, lane in enumerate(lanes):
                if played[lane.which] is not None and waiting:
                    lanes[row] = self._begin(*waiting.popleft())
                    self.network.put(stack, row, lanes[row].order.theta)
            kept = [row for row, lane in enumerate(lanes) if played[lane.which] is None]
            if len(kept) < len(lanes):
                stack, lanes = (
                    self.network.keep(stack, np.array(kept, int)),
                    [lanes[row] for row in kept],
                )
        return played

    def _begin(self, which: int, order: Order) -> Lane:
        env = self.spare.take(order.psi) or self.world.make(order.psi)
        return Lane(
            which, order, env, [reset(env, self.world.observation, self.world.name, order.seed)]
        )

    def _act(self, lanes: Sequence[Lane], outputs: np.ndarray) -> Any:
        """Returns an action for each lane, in the world's units."""
        chosen = numpy_actions.greedy(self.recipe, outputs)
        drawn = [row for row, lane in enumerate(lanes) if lane.order.rng is not None]
        if drawn:
            u = np.array([self._draw(lanes[row]) for row in drawn])
            alpha = np.array([lanes[row].order.alpha for row in drawn])
            greedily = np.array([lanes[row].order.greedy for row in drawn])
            chosen[drawn] = numpy_actions.draw(self.recipe, outputs[drawn], u, alpha, greedily)
        return chosen

    def _draw(self, lane: Lane) -> np.ndarray:
        """Uniform numbers for one step: the same ones whichever lanes are beside it."""
        assert lane.order.rng is not None
        at = len(lane.actions) % DRAWS
        if at == 0:
            lane.draws = lane.order.rng.random((DRAWS, numpy_actions.uniforms(self.recipe)))
        assert lane.draws is not None
        row: np.ndarray = lane.draws[at]
        return row

    def _step(self, lane: Lane, action: Any, played: list[Any]) -> bool:
        """One step; True if the episode is over."""
        world = self.world
        try:
            seen, reward, terminated, truncated, _ = lane.env.step(world.acting.plain(action))
            row, reward = world.observation.flat(seen), float(reward)
        except Exception as error:
            where = f"step {len(lane.actions) + 1} of an episode"
            raise EnvironmentFailed(
                f"{world.name} raised {in_one_line(error)} in {where}"
            ) from None
        lane.seen.append(row)
        lane.actions.append(action)
        lane.rewards.append(reward)
        if not (terminated or truncated or len(lane.rewards) >= world.max_steps):
            return False
        observations, rewards = np.array(lane.seen), np.array(lane.rewards)
        if not (np.isfinite(rewards).all() and np.isfinite(observations).all()):
            what = "a reward" if np.isfinite(observations).all() else "an observation"
            raise EnvironmentFailed(f"{world.name} returned {what} that is not finite")
        played[lane.which] = History(
            observations, np.array(lane.actions), rewards, bool(terminated)
        )
        self.spare.give(lane.order.psi, lane.env)
        return True

    def _made(self, ask: Task, episodes: list[History], xi: np.ndarray) -> Played:
        played, scored = (
            episodes[: self.training.episodes],
            episodes[-1] if self.recipe.score == "greedy" else episodes[0],
        )
        z = self._by_policy(
            coordinates, self.recipe, ask.theta, ask.basis, played, xi, self.network
        )
        return Played(z, float(scored.rewards.sum()), sum(len(e.rewards) for e in episodes))

    def _by_policy(self, work: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """What may call a policy of a user's own."""
        try:
            return work(*arguments)
        except PgcError:
            raise
        except Exception as error:
            raise PgcError(f"the policy raised {in_one_line(error)}") from None

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
