"""Who plays a problem: this process, processes of this machine, or a Ray cluster.

It changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pgc.config.problem import Problem
from pgc.engines import simulation
from pgc.engines.crew import Crew, local_crew
from pgc.engines.host import HostSimulation
from pgc.engines.simulation import Happened, Simulation
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
        """Refuse what cannot be meant, before anything is made."""
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
        if (
            self.engine == "local"
            and self.processes is not None
            and not isinstance(problem.training.world, HostWorld)
        ):
            raise PgcError(
                "a compiled world plays in this process, on every core; --processes is for worlds "
                "that play on the host"
            )

    @contextmanager
    def crew(self, *problems: Problem) -> Iterator[Crew | None]:
        """The workers; None where the compiled engine plays in this process."""
        for problem in problems:
            self.check(problem)
        if self.engine == "ray":
            from pgc.engines.ray_crew import RayCrew  # an extra

            with RayCrew(self.address, self.processes) as cluster:
                yield cluster
        elif any(isinstance(problem.training.world, HostWorld) for problem in problems):
            with local_crew(self.processes) as crew:
                yield crew
        else:
            yield None


def simulation_of(*problems: Problem) -> Simulation | HostSimulation:
    """Trials of some problems that share a program; of one, in a world that plays on the host."""
    if not isinstance(problems[0].training.world, HostWorld):
        return Simulation(*problems)
    (problem,) = problems
    return HostSimulation(problem)


def advance(
    simulations: Sequence[Simulation | HostSimulation], crew: Crew | None
) -> Iterator[tuple[int, Happened]]:
    """Play on for a while in every simulation; tell which of them delivered what."""
    compiled = [(i, s) for i, s in enumerate(simulations) if isinstance(s, Simulation)]
    for which, happened in simulation.advance([s for _, s in compiled], crew):
        yield compiled[which][0], happened
    for i, s in enumerate(simulations):
        if isinstance(s, HostSimulation):
            for happened in s.advance(crew):
                yield i, happened
