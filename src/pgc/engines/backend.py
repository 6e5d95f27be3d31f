"""Decides where and how a problem is played.

`Backend` says where: in this process, in other processes of this machine, or on a Ray cluster. That
changes no result. How it is played follows from its world: in compiled trials reports arrive in
virtual time, in trials on the host they are taken in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pgc.config.problem import Problem
from pgc.engines import compiled_simulation, host
from pgc.engines.compiled import engine_of
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.engines.crew import Crew, local_crew
from pgc.engines.evaluation import greedy_scores
from pgc.engines.host import HostSimulation
from pgc.engines.simulation import Arrivals, Simulation
from pgc.errors import PgcError
from pgc.local_training.worlds.base import World
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import HostWorld

MOST_TRIED = 16
"""The most values of ψ for which an environment is made as a test, before a run begins."""


@dataclass(frozen=True)
class Backend:
    """Where episodes are played: in this process, in others of this machine, or on a
    Ray cluster.
    """

    engine: str = "local"
    """`local` or `ray`."""
    address: str | None = None
    """The address of a running Ray cluster; None starts one on this machine."""
    processes: int | None = None
    """How many processes play; None for as many as there are cores."""

    def check(self, problem: Problem) -> None:
        """Refuses settings that contradict each other, and worlds that cannot be made."""
        if self.engine not in ("local", "ray"):
            raise PgcError(f"unknown engine '{self.engine}'; choose local or ray")
        if self.engine == "local" and self.address is not None:
            raise PgcError("--address is that of a Ray cluster; give --engine ray as well")
        if self.processes is not None and self.processes < 1:
            raise PgcError(f"processes must be at least 1, not {self.processes}")
        try_worlds(problem.training.world, problem.training.population.grid())
        if self.engine == "local" and self.processes is not None and not plays_on_host(problem):
            raise PgcError(
                "a compiled world plays in this process, on every core; --processes is for worlds "
                "that play on the host"
            )

    @contextmanager
    def crew(self, *problems: Problem) -> Iterator[Crew | None]:
        """Yields the workers, or None if the compiled engine plays in this process.

        The workers end with the context. Call `check` before.
        """
        if self.engine == "ray":
            from pgc.engines.ray_crew import RayCrew  # an extra

            with RayCrew(self.address, self.processes) as cluster:
                yield cluster
        elif any(plays_on_host(problem) for problem in problems):
            with local_crew(self.processes) as crew:
                yield crew
        else:
            yield None


def try_worlds(world: World, psis: Sequence[Any]) -> None:
    """Finds out, before an hour of work, whether environments can be made at these ψ."""
    if isinstance(world, HostWorld):
        for psi in psis[:MOST_TRIED]:
            close(world.make(psi))


def plays_on_host(problem: Problem) -> bool:
    """Returns whether a problem's world plays on the host."""
    return problem.training.world.on_host


def batch_key(problem: Problem) -> Any:
    """Returns a value that is equal for problems whose trials can run in one compiled program.

    Nothing is compiled for a world on the host, so its value is the config itself.
    """
    return problem.config if plays_on_host(problem) else jax.tree.structure(engine_of(problem))


def simulation_of(*problems: Problem) -> Simulation:
    """Returns a simulation of problems that share a program, or of one problem on the host."""
    if not plays_on_host(problems[0]):
        return CompiledSimulation(*problems)
    (problem,) = problems
    return HostSimulation(problem)


def advance(some: Sequence[Simulation], crew: Crew | None) -> Iterator[tuple[int, Arrivals]]:
    """Plays on for a while in some simulations; yields what arrived, with the index in `some`.

    The blocks of all compiled trials are played together, so that every core is busy.
    """
    compiled = [(i, one) for i, one in enumerate(some) if isinstance(one, CompiledSimulation)]
    for which, happened in compiled_simulation.advance([one for _, one in compiled], crew):
        yield compiled[which][0], happened
    for i, one in enumerate(some):
        if not isinstance(one, CompiledSimulation):
            for happened in one.advance(crew):
                yield i, happened


def scores_of(
    problem: Problem,
    thetas: np.ndarray,
    psis: list[Any],
    *,
    episodes: int,
    seed: int,
    crew: Crew | None = None,
) -> np.ndarray:
    """Returns mean scores (policies, ψs) of greedy play, `episodes` each.

    All policies start from the same states.
    """
    if not plays_on_host(problem):
        return greedy_scores(problem.training, thetas, psis, episodes=episodes, seed=seed)
    with nullcontext(crew) if crew is not None else local_crew(None) as players:
        return host.greedy_scores(problem, players, thetas, psis, episodes=episodes, seed=seed)
