"""`pgc frontier`: mechanisms × ε, what privacy costs, and which mechanism to choose."""

from __future__ import annotations

from dataclasses import dataclass

from pgc.cli.fields import Address, Engine, Json, Out, ResumeStudy, RunCode
from pgc.cli.study import study_command


@dataclass(frozen=True)
class Frontier:
    """Compare mechanisms over ε: what privacy costs, and which mechanism to choose.

    Runs every way to report at ε from 0.1 to ∞, each with its zero-gradient control, with the
    hyper-parameters that pgc train has by default. Leaves a folder with report.html (one file,
    opens offline), figures/ (PNG and SVG), summary.json (every cell), privacy.json and config.yaml,
    and prints its path last. Ctrl-C leaves a checkpoint for --resume.
    """

    trials: int | None = None
    """Trials in each cell; by default 20."""
    submissions: int | None = None
    """N: reports collected in each trial; by default 2,000."""
    world: str = "cartpole"
    """The world that agents live in, as in pgc train; it may play on the host."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same numbers."""
    quick: bool = False
    """Make a small report in about a minute: three ways to report, four ε, 4 trials of 200 reports.
    Every figure says so."""
    engine: Engine = "local"
    address: Address = None
    out: Out = None
    resume: ResumeStudy = None
    run_code: RunCode = False
    json: Json = False


def frontier(given: list[str]) -> int:
    """Runs `pgc frontier` with the given flags."""
    from pgc.studies.frontier.frontier import frontier as run  # names a missing extra itself

    return study_command(Frontier, "frontier", given, run)
