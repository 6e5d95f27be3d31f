"""`pgc frontier`: mechanisms × ε, what privacy costs, and which mechanism to choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgc.cli.fields import Address, Engine, Json, Out, ResumeStudy, RunCode
from pgc.cli.study import study_command
from pgc.errors import PgcError

if TYPE_CHECKING:
    from pgc.runs.folder import Folder


@dataclass(frozen=True)
class Frontier:
    """Compare mechanisms over ε: what privacy costs, and which mechanism to choose.

    Runs every way to report at ε from 0.1 to ∞, each with its zero-gradient control, with the
    hyper-parameters that pgc train has by default. Leaves a folder with report.html (one file,
    opens offline), figures/ (PNG and SVG), summary.json (every cell), privacy.json and config.yaml,
    and prints its path last. Ctrl-C leaves a checkpoint for --resume.
    """

    trials: int | None = None
    """Trials in each cell; by default 20, or 8 with --suite."""
    submissions: int | None = None
    """N: reports collected in each trial; by default 2,000."""
    world: str = "cartpole"
    """The world that agents live in, as in pgc train; it may play on the host."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same numbers."""
    suite: bool = False
    """Compare several worlds in place of several mechanisms: CartPole, Acrobot, MountainCar,
    Pendulum, Thermostat, Rooms, Glucose and, if it is installed, LunarLander, at four ε, beside
    noise alone and a public start. Hours, where a world is slow."""
    worlds: tuple[str, ...] | None = None
    """With --suite: only these worlds, such as cartpole acrobot."""
    quick: bool = False
    """Make a small report in about a minute: three ways to report, four ε, 4 trials of 200 reports
    (with --suite two ε, 2 trials of 30 reports). Every figure says so."""
    engine: Engine = "local"
    address: Address = None
    out: Out = None
    resume: ResumeStudy = None
    run_code: RunCode = False
    json: Json = False


def frontier(given: list[str]) -> int:
    """Runs `pgc frontier` with the given flags."""
    return study_command(Frontier, "frontier", given, _run)


def _run(
    *,
    suite: bool,
    worlds: tuple[str, ...] | None,
    submissions: int | None,
    world: str,
    run_code: bool,
    resume: Path | None,
    **common: Any,
) -> Folder:
    """Runs the comparison of mechanisms, or that of worlds."""
    # these name a missing extra themselves
    if suite or (resume is not None and is_suite(resume)):
        if submissions is not None or world != "cartpole":
            raise PgcError("--suite chooses --submissions itself, and its worlds by --worlds")
        if worlds == ():
            raise PgcError("--worlds needs a name, such as cartpole")
        from pgc.studies.suite.suite import suite as run_suite

        return run_suite(worlds=worlds, resume=resume, **common)
    if worlds is not None:
        raise PgcError("--worlds belongs to --suite; one world is chosen by --world")
    from pgc.studies.frontier.frontier import frontier as run_frontier

    return run_frontier(
        submissions=submissions, world=world, run_code=run_code, resume=resume, **common
    )


def is_suite(folder: Path) -> bool:
    """Returns whether a folder was made with --suite."""
    try:
        text = (folder / "config.yaml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.startswith("worlds:") for line in text.splitlines())
