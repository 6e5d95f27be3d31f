"""(a) The floor plan: which walls does a report of one robot reveal?

The robot of `rooms-with-position` plays one episode, and its report is the gradient of the whole
network. In a network with ReLU units, the gradient of the weights from "the robot is in cell p" to
unit u is a sum over the moments in which the robot was in p and u was active; if u was never active
there, it is exactly 0. Which units are active in p depends on p, on the walls around it, and on θ,
which the robber handed out. So each cell that was visited shows a pattern of zeros, and the robber
looks which of the 16 possible sets of walls makes it.

Under noise there are no zeros. The robber then weighs: numbers of active units are larger. It knows
how large they are, and how often there is a wall at each place in the population, and computes the
probability of every wall (Bayes' rule). Where all of this says nothing, what remains is what it
knew before: the population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pgc.config import configure
from pgc.config.problem import Problem, build
from pgc.local_training.worlds.floor_plan import (
    CELLS,
    EAST,
    NORTH,
    SIDE,
    SOUTH,
    STEPS,
    WEST,
    CellSet,
)
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game
from pgc.robber.homes import Homes, first_theta, play_homes, reports

HIDDEN = 64
EDGES = [
    (cell, side)
    for cell in range(CELLS)
    for side in (EAST, SOUTH)
    if (cell % SIDE < SIDE - 1 if side == EAST else cell // SIDE < SIDE - 1)
]
"""Where inside a home there may be a wall: at the east or the south side of these cells."""
PATTERNS = np.array([[(number >> side) & 1 for side in range(4)] for number in range(16)], bool)
"""The 16 sets of walls around a cell: north, east, south, west."""


def problem_at(epsilon: float) -> Problem:
    """Returns what the robber's aggregator asks for: one episode, and the whole gradient."""
    return build(
        configure(
            world="rooms-with-position", mechanism="laplace", epsilon=epsilon, subspace="full",
            estimator="policy-gradient", local_episodes=1, score="training", hidden=(HIDDEN,),
            activation="relu", biases=True, initial="glorot", baseline="critic",
        )
    )  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What is true of some homes; the robber does not have it."""

    walls: np.ndarray
    """Whether there is a wall at each of `EDGES`, (n, 112)."""
    seen: np.ndarray
    """Whether the robot was in one of the two cells beside it, (n, 112)."""
    visited: np.ndarray
    """(n, 64)."""


def truth(homes: Homes) -> Truth:
    """Returns the walls of homes, and the cells that their robots visited."""
    flags = jax.vmap(CellSet.flags, -1)
    plan, clean = homes.state.plan, homes.state.clean
    sides = {EAST: np.asarray(flags(plan.east)), SOUTH: np.asarray(flags(plan.south))}
    visited = np.asarray(flags(clean))
    walls = np.stack([sides[side][:, cell] for cell, side in EDGES], axis=1)
    seen = np.stack(
        [visited[:, cell] | visited[:, cell + STEPS[side]] for cell, side in EDGES], axis=1
    )
    return Truth(walls, seen, visited)


@dataclass(frozen=True)
class Decoder:
    """What the robber knows before it sees a report."""

    active: np.ndarray
    """Whether each unit is active in each cell under each set of walls, (64 cells, 16, units)."""
    rates: np.ndarray
    """How often there is a wall at each of `EDGES`, in the population."""
    around: np.ndarray
    """The same for the four sides of each cell, (64, 4)."""
    size: float
    """How large the numbers of active units are in a clipped gradient, on average."""

    @classmethod
    def learn(cls, problem: Problem, theta: np.ndarray, homes: Homes) -> Decoder:
        """Learns rates and sizes from homes that the robber made; the rest follows from θ."""
        policy: Any = problem.training.policy
        layer = policy.unflatten(theta).shared[0]
        weight, bias = np.asarray(layer.weight), np.asarray(layer.bias)
        signs = np.where(PATTERNS, 1.0, -1.0)  # (16, 4)
        into = weight[:, :CELLS].T[:, None, :] + (signs @ weight[:, CELLS:].T)[None] + bias
        known = truth(homes)
        rates = known.walls.mean(axis=0)
        around = np.ones((CELLS, 4))
        for (cell, side), rate in zip(EDGES, rates, strict=True):
            around[cell, side] = rate
            around[cell + STEPS[side], {EAST: WEST, SOUTH: NORTH}[side]] = rate
        whole = np.abs(homes.gradients.T)
        clip: Any = problem.randomiser.mechanism
        whole /= np.maximum(1, whole.sum(axis=1, keepdims=True) / (clip.clip / 2))
        first = whole[:, : weight.size]
        size = float(first[first > 0].mean())
        return cls(into > 0, rates, around, size)

    def walls(self, gradients: np.ndarray, noise: float) -> np.ndarray:
        """Returns the probability of a wall at each of `EDGES`, (n, 112), given gradients with
        Laplace noise of this scale in each number; 0 for none.
        """
        units = self.active.shape[2]
        inputs = CELLS + 4
        first = gradients[:, : units * inputs]  # the weights of the first layer come first
        numbers = first.reshape(len(gradients), units, inputs)[:, :, :CELLS]
        small = max(noise, 1e-3 * self.size)
        large = small + self.size
        size = np.abs(numbers).transpose(0, 2, 1)  # (n, cells, units)
        gain = np.log(small / large) + size * (1 / small - 1 / large)
        if noise == 0:  # a number that is not 0 was active, however small it is
            gain = np.where(size > 0, 5.0, -5.0)
        odds = np.einsum("ncu,cwu->ncw", gain, self.active.astype(float))
        prior = np.where(PATTERNS[None], self.around[:, None, :], 1 - self.around[:, None, :])
        with np.errstate(divide="ignore"):
            odds = odds + np.log(prior).sum(axis=2)
        odds -= odds.max(axis=2, keepdims=True)
        weights = np.exp(odds)
        weights /= weights.sum(axis=2, keepdims=True)
        sides = np.einsum("ncw,wd->ncd", weights, PATTERNS.astype(float))
        # a wall has two sides: the surer one says whether it is there
        opposite = {EAST: WEST, SOUTH: NORTH}
        both = [
            np.stack([sides[:, cell, side], sides[:, cell + STEPS[side], opposite[side]]])
            for cell, side in EDGES
        ]
        chosen = []
        for (one, other), rate in zip(both, self.rates, strict=True):
            surer = np.abs(_logit(one) - _logit(rate)) >= np.abs(_logit(other) - _logit(rate))
            chosen.append(np.where(surer, one, other))
        return np.stack(chosen, axis=1)


def _logit(p: np.ndarray | float) -> np.ndarray:
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p / (1 - p)))


def attack(effort: Effort) -> tuple[Attack, Pictures]:
    """Robs homes of their walls; also returns what the pictures show."""
    problem = problem_at(1.0)
    theta = first_theta(problem, effort.seed)
    size = effort.of(500, 150)
    mine = play_homes(problem, theta, size, 2 * effort.seed + 1)
    robbed = play_homes(problem, theta, size, 2 * effort.seed + 2)
    decoder, true = Decoder.learn(problem, theta, mine), truth(robbed)
    raw = decoder.walls(robbed.gradients.T, 0.0)
    common: dict[str, Any] = dict(games=len(true.walls))
    games = [
        Game(
            arm="no noise", epsilon=math.inf, breaks=True, **balanced(raw, decoder, true), **common
        )
    ]
    shown = int(np.argmax(true.visited.sum(axis=1)))  # the home of which most can be seen
    pictures = {"the home": true.walls[shown].astype(float), "from its gradient": raw[shown]}
    for epsilon in sorted({*effort.some_epsilons, *DRAWN}, reverse=True):
        noisy = problem_at(epsilon)
        clip: Any = noisy.randomiser.mechanism
        found = decoder.walls(reports(noisy, robbed), clip.clip / epsilon)
        games.append(
            Game(arm="laplace", epsilon=epsilon, **balanced(found, decoder, true), **common)
        )
        if epsilon in DRAWN:
            pictures[f"from a report at ε = {epsilon:g}"] = found[shown]
    made = Attack(
        name="plan",
        title="The floor plan",
        adversary="It runs the aggregator, chose θ, and knows how often there is a wall at each "
        "place in the population.",
        secret="The walls around the cells that the robot visited.",
        works='In a ReLU network the gradient of the weights from "the robot is in this cell" is '
        "exactly 0 for each unit that was never active there. Which units are, depends on the "
        "walls around the cell, so each cell that was visited shows a pattern, and the robber "
        "looks up which walls make it. Under noise it weighs the numbers instead, and computes "
        'the probability of each wall. It says "wall" where the report made that likelier.',
        limit="e^ε/(e^ε + 1): the mean of the shares of walls and of gaps that are found is a game "
        "of two secrets, for each place where there may be a wall.",
        games=tuple(games),
    )
    return made, Pictures(pictures, true.visited[shown])


DRAWN = (10.0, 5.0, 1.0)
"""The values of ε at which a home is drawn."""
RARE = 0.02
"""Places where nearly never, or nearly always, is a wall are left out: there is nothing to find."""
DEVIATIONS = 4.4
"""Half the width of an interval, in standard errors: its error is that of `game.ERROR`."""


@dataclass(frozen=True)
class Pictures:
    """One home: its walls, and what the robber makes of it, as probabilities at `EDGES`."""

    walls: dict[str, np.ndarray]
    visited: np.ndarray
    """(64,)."""


def balanced(found: np.ndarray, decoder: Decoder, true: Truth) -> dict[str, Any]:
    """Returns the balanced accuracy at visited cells, the mean over places of the share of walls
    that were found and the share of gaps, with an interval over homes.

    The robber says "wall" where its probability is above that of the population. Knowing the
    population alone, or nothing, it scores a half.
    """
    right = (found > decoder.rates) == true.walls
    seen = true.seen
    rates = (true.walls & seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    kept = (rates > RARE) & (rates < 1 - RARE)
    share = np.where(true.walls, rates, 1 - rates)[:, kept]
    weight = np.where(seen[:, kept], 0.5 / share, 0.0) / np.maximum(seen[:, kept].sum(axis=0), 1)
    homes, total = (weight * right[:, kept]).sum(axis=1), weight.sum()
    score = float(homes.sum() / total)
    rest = homes - score * weight.sum(axis=1)  # the ratio, linearised
    error = float(np.sqrt(np.sum(rest**2))) / total
    low, high = score - DEVIATIONS * error, score + DEVIATIONS * error
    return dict(share=score, low=max(0.0, low), high=min(1.0, high))
