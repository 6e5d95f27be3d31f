"""`pgc reproduce`: the paper's tables and figures, beside the paper's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

from pgc.cli.fields import Address, Engine, Json, Out, ResumeStudy
from pgc.cli.study import study_command


@dataclass(frozen=True)
class Reproduce:
    """Rebuild the paper's evaluation and put it beside the paper's own numbers, with controls and
    intervals.

    Makes Figures 2 and 3 and Tables 1 to 3, and tests the claims that the paper makes in words, in
    three readings of its text: as printed; the same with a reward at the end of an episode; and the
    reading closest to its results, whose Laplace is NOT ε-LDP. Leaves a folder with report.html
    (one file, opens offline), figures/ (PNG and SVG), summary.json (every cell), privacy.json and
    config.yaml, and prints its path last. Ctrl-C leaves a checkpoint for --resume.
    """

    trials: int | None = None
    """Trials in each cell; by default the paper's 20, or two sets of 10 with --readings. 100 trials
    give narrow intervals."""
    submissions: int | None = None
    """N: submissions in each trial; by default the paper's 90,000."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same numbers."""
    quick: bool = False
    """Make a small report in under 90 seconds, from 2,000 submissions and few trials. Every figure
    says so. It is not for conclusions."""
    readings: bool = False
    """Instead, vary the choices that the paper's text leaves open, one at a time, and show which of
    them decide the result."""
    engine: Engine = "local"
    address: Address = None
    out: Out = None
    resume: ResumeStudy = None
    json: Json = False


def reproduce(given: list[str]) -> int:
    """Runs `pgc reproduce` with the given flags."""
    from pgc.studies.reproduction.reproduce import reproduce as run  # names a missing extra itself

    return study_command(Reproduce, "reproduce", given, run)
