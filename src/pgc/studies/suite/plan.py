"""Which cells a suite runs: in each world, every ε with its control, and a public start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pgc.config import configure
from pgc.config.config import TrainConfig
from pgc.errors import PgcError
from pgc.runs.sweep import Cell

EPSILONS = (0.5, 1.0, 2.0, math.inf)
QUICK_EPSILONS = (1.0, math.inf)
QUICK_SUBMISSIONS, QUICK_EPISODES = 30, 5


@dataclass(frozen=True, kw_only=True)
class Task:
    """A world of the suite, and how much is collected in it."""

    name: str
    """How it is chosen, with --worlds."""
    world: str
    title: str
    submissions: int
    usual: str
    """The home that a public simulator has, in the notation of --population."""
    population: tuple[str, ...] | None = None
    """How homes differ; by default as the world says."""
    episodes: int = 100
    """Greedy episodes at each ψ, for the scores."""
    needs: str | None = None
    """A module that must be installed for it."""


TASKS = (
    Task(
        name="cartpole", world="cartpole", title="CartPole", submissions=2000, usual="gravity=9.8"
    ),
    Task(name="acrobot", world="acrobot", title="Acrobot", submissions=4000, usual="gravity=9.8"),
    Task(
        name="mountain-car",
        world="mountain-car",
        title="MountainCar",
        submissions=2000,
        usual="gravity=0.0025",
    ),
    Task(name="pendulum", world="pendulum", title="Pendulum", submissions=4000, usual="gravity=10"),
    Task(
        name="thermostat",
        world="thermostat",
        title="Thermostat",
        submissions=2000,
        usual="resistance=5",
        episodes=20,
    ),
    Task(name="rooms", world="rooms", title="Rooms", submissions=1000, usual="wall=4", episodes=5),
    Task(
        name="glucose",
        world="glucose",
        title="Glucose",
        submissions=1000,
        usual="patient=10",
        episodes=5,
    ),
    Task(
        name="lunar-lander",
        world="gymnasium:LunarLander-v3",
        title="LunarLander",
        submissions=2000,
        usual="gravity=-10",
        population=("gravity=-11.9:-6",),
        episodes=20,
        needs="Box2D",
    ),
)
"""The worlds, from the easiest to the hardest. Their settings follow from the rules that every
world has; a task says only how long it collects and how homes differ."""
NAMES = tuple(task.name for task in TASKS)


def installed() -> tuple[str, ...]:
    """Returns the names of the worlds whose packages are installed."""
    return tuple(task.name for task in TASKS if task.needs is None or find_spec(task.needs))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is run: which worlds, how many trials, and with which seed."""

    worlds: tuple[str, ...]
    """The names of the worlds."""
    trials: int
    seed: int
    quick: bool

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The values of ε."""
        return QUICK_EPSILONS if self.quick else EPSILONS

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The worlds of this suite."""
        unknown = [name for name in self.worlds if name not in NAMES]
        if unknown:
            raise PgcError(
                f"the suite has no {', '.join(unknown)}; choose from: {', '.join(NAMES)}"
            )
        return tuple(task for task in TASKS if task.name in self.worlds)

    def submissions(self, task: Task) -> int:
        """The reports that are collected in each trial."""
        return QUICK_SUBMISSIONS if self.quick else task.submissions


def cell_name(task: Task, epsilon: float, control: bool) -> str:
    """Returns the name of a cell."""
    return f"{task.title}/{epsilon:g}" + ("-control" if control else "")


def public_name(task: Task) -> str:
    """Returns the name of the cell that is trained in public, in the usual home."""
    return f"{task.title}/public"


def cells(settings: Settings) -> list[Cell]:
    """Returns every cell of the plan.

    The public start is trained without privacy in the usual home, and scored in all homes like the
    others: what it reaches needs nobody's reports.
    """
    made = []
    for task in settings.tasks:
        for epsilon in settings.epsilons:
            for control in (False, True):
                config = _config(settings, task, epsilon=epsilon, control=control)
                made.append(Cell(name=cell_name(task, epsilon, control), config=config))
        config = _config(settings, task, epsilon=math.inf, public=True, population=(task.usual,))
        everyone = made[-1].problem.config.population
        made.append(Cell(name=public_name(task), config=config, judged=everyone))
    return made


def _config(settings: Settings, task: Task, **more: Any) -> TrainConfig:
    episodes = QUICK_EPISODES if settings.quick else task.episodes
    common: dict[str, Any] = dict(
        world=task.world, submissions=settings.submissions(task), trials=settings.trials,
        seed=settings.seed, eval_episodes=episodes, population=task.population,
    )  # fmt: skip
    return configure(**{**common, **more})
