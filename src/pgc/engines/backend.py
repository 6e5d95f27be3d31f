"""Who plays a problem, and how.

`Backend` says who: this process, processes of this machine, or a Ray cluster; that changes no
result. How follows from the world: compiled trials in virtual time, or trials on the host in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pgc.config.problem import Problem
from pgc.engines import host, simulation
from pgc.engines.compiled import engine_of
from pgc.engines.crew import Crew, local_crew
from pgc.engines.evaluation import greedy_scores
from pgc.engines.host import HostSimulation
from pgc.engines.simulation import Simulation
from pgc.engines.trials import Happened, Trials
from pgc.errors import PgcError
from pgc.local_training.worlds.creator import close
from pgc.local_training.worlds.host import HostWorld

MOST_TRIED = 16
"""Values of ψ for which an environment is made before anything else."""


@dataclass(frozen=True)
class Backend:
    """Where episodes are played: in this process, in others of this machine, or on a
    Ray cluster.
    """

    engine: str = "local"
    """`local` or `ray`."""
    address: str | None = None
    """Of a Ray cluster that is there; None: one is started on this machine."""
    processes: int | None = None
    """How many play; None: as many as there are cores."""

    def check(self, problem: Problem) -> None:
        """Refuses settings that contradict each other, before anything is made."""
        if self.engine not in ("local", "ray"):
            raise PgcError(f"unknown engine '{self.engine}'; choose local or ray")
        if self.engine == "local" and self.address is not None:
            raise PgcError("--address is that of a Ray cluster; give --engine ray as well")
        if self.processes is not None and self.processes < 1:
            raise PgcError(f"processes must be at least 1, not {self.processes}")
        world = problem.training.world
        # what cannot be made should be known before an hour of work
        if isinstance(world, HostWorld):
            for psi in problem.training.population.grid()[:MOST_TRIED]:
                close(world.make(psi))
        if self.engine == "local" and self.processes is not None and not plays_on_host(problem):
            raise PgcError(
                "a compiled world plays in this process, on every core; --processes is for worlds "
                "that play on the host"
            )

    @contextmanager
    def crew(self, *problems: Problem) -> Iterator[Crew | None]:
        """Opens the workers; None where the compiled engine plays in this process."""
        for problem in problems:
            self.check(problem)
        if self.engine == "ray":
            from pgc.engines.ray_crew import RayCrew  # an extra

            with RayCrew(self.address, self.processes) as cluster:
                yield cluster
        elif any(plays_on_host(problem) for problem in problems):
            with local_crew(self.processes) as crew:
                yield crew
        else:
            yield None


def plays_on_host(problem: Problem) -> bool:
    """Whether a problem's world plays on the host: engines and runs ask here, and nowhere else."""
    return isinstance(problem.training.world, HostWorld)


def program_of(problem: Problem) -> Any:
    """Returns what is compiled for a problem: problems with equal ones can share their trials.

    Nothing is compiled for a world on the host, which shares with nobody.
    """
    return problem.config if plays_on_host(problem) else jax.tree.structure(engine_of(problem))


def trials_of(*problems: Problem) -> Trials:
    """Returns the trials of some problems that share a program; of one, in a world on the host."""
    if not plays_on_host(problems[0]):
        return Simulation(*problems)
    (problem,) = problems
    return HostSimulation(problem)


def advance(some: Sequence[Trials], crew: Crew | None) -> Iterator[tuple[int, Happened]]:
    """Play on for a while in all of them; tell what arrived in which of them.

    Blocks of all compiled ones are played together, so that every core is busy.
    """
    compiled = [(i, trials) for i, trials in enumerate(some) if isinstance(trials, Simulation)]
    for which, happened in simulation.advance([trials for _, trials in compiled], crew):
        yield compiled[which][0], happened
    for i, trials in enumerate(some):
        if not isinstance(trials, Simulation):
            for happened in trials.advance(crew):
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
