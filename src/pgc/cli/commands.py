"""What each command takes and prints. The help of a flag is the text under its field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from pgc.cli.parsing import number, parse, print_json
from pgc.config.config import TrainConfig, configure
from pgc.errors import PgcError, require
from pgc.runs import evaluate as scoring
from pgc.runs import train as training
from pgc.runs.folder import Folder
from pgc.runs.progress import Watch


@dataclass(frozen=True, kw_only=True)
class Train(TrainConfig):
    """Train one policy for a population of private worlds under ε-local differential privacy.

    Leaves a folder with config.yaml, metrics/ (one row per submission), policy.safetensors, curve.png, privacy.json and
    summary.json, and prints its path last. Ctrl-C leaves a checkpoint for --resume.
    """

    out: Path | None = None
    """Folder for the results; by default a new one under runs/."""
    resume: Path | None = None
    """Continue this run folder from its checkpoint, to the bit-identical result. Takes no other setting."""
    engine: Literal["local", "ray"] = "local"
    """Who plays: this machine, or a Ray cluster (pgc[ray]). Never changes a result."""
    address: str | None = None
    """Of a Ray cluster that is running, HOST:PORT or auto; by default one is started on this machine."""
    processes: int | None = None
    """How many play at the same time, of a world that plays on the host or on a Ray cluster; by default one for each core."""
    checkpoint_seconds: float = training.CHECKPOINT_SECONDS
    """How often a checkpoint is written: what a kill can cost. Never changes a result."""
    json: bool = False
    """Print the summary as JSON and nothing else."""


@dataclass(frozen=True)
class Reproduce:
    """Rebuild the paper's evaluation and put it beside the paper's own numbers, with controls and intervals.

    Figures 2 and 3, Tables 1 to 3 and the paper's claims in words, in three readings of its text: as printed; the same with a
    reward at the end of an episode; and the closest to its results, whose Laplace is NOT ε-LDP. Leaves a folder with report.html
    (one file, opens offline), figures/ (PNG and SVG), summary.json (every cell), privacy.json and config.yaml, and prints its
    path last. Ctrl-C leaves a checkpoint for --resume.
    """

    trials: int | None = None
    """Trials in each cell; by default the paper's 20, or twice 10 with --readings. 100 give narrow intervals."""
    submissions: int | None = None
    """N; by default the paper's 90,000."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same numbers."""
    quick: bool = False
    """A look at the report in under 90 seconds: 2,000 submissions, few trials, said so on every figure. Not for conclusions."""
    readings: bool = False
    """Instead, vary the choices that the paper's text leaves open, one at a time, and show which of them decide the result."""
    engine: Literal["local", "ray"] = "local"
    """Who plays: this machine, or a Ray cluster (pgc[ray]). Never changes a result."""
    address: str | None = None
    """Of a Ray cluster that is running, HOST:PORT or auto; by default one is started on this machine."""
    out: Path | None = None
    """Folder for the results; by default a new one under runs/."""
    resume: Path | None = None
    """Continue this folder from its checkpoint, to the same result; a complete one gets its report written anew."""
    json: bool = False
    """Print summary.json and nothing else."""


@dataclass(frozen=True)
class Frontier:
    """Compare mechanisms over ε: what privacy costs, and which mechanism to choose.

    Every way to report at ε from 0.1 to ∞, each with its zero-gradient control, with the default's rules. Leaves a folder with
    report.html (one file, opens offline), figures/ (PNG and SVG), summary.json (every cell), privacy.json and config.yaml, and
    prints its path last. Ctrl-C leaves a checkpoint for --resume.
    """

    trials: int | None = None
    """Trials in each cell; by default 20."""
    submissions: int | None = None
    """N: reports collected in each trial; by default 2,000."""
    world: str = "cartpole"
    """The world that agents live in: as in pgc train, one on the host included."""
    seed: int = 0
    """Fixes everything: same seed, same machine type, same numbers."""
    quick: bool = False
    """A look at the report in about a minute: three ways to report, four ε, 4 trials of 200 reports, said so on every
    figure."""
    engine: Literal["local", "ray"] = "local"
    """Who plays: this machine, or a Ray cluster (pgc[ray]). Never changes a result."""
    address: str | None = None
    """Of a Ray cluster that is running, HOST:PORT or auto; by default one is started on this machine."""
    out: Path | None = None
    """Folder for the results; by default a new one under runs/."""
    resume: Path | None = None
    """Continue this folder from its checkpoint, to the same result; a complete one gets its report written anew."""
    json: bool = False
    """Print summary.json and nothing else."""


@dataclass(frozen=True)
class Evaluate:
    """Score the policy of a finished run, world by world, inside and outside the population it was trained on.

    Writes evaluation.json and evaluation.png into the run folder.
    """

    run: Positional[Path]
    """A folder made by pgc train."""
    policy: str = "averaged"
    """Which of the saved policies: averaged, or theta (the last one)."""
    episodes: int = 100
    """Greedy episodes for each ψ."""
    seed: int = 1
    """Of the start states."""
    population: tuple[str, ...] | None = None
    """Score at these ψ instead: FIELD=v1,v2,… or FIELD=low:high."""
    gif: bool = False
    """Also draw one episode as episode.gif."""
    json: bool = False
    """Print the result as JSON and nothing else."""


@dataclass(frozen=True)
class Compare:
    """Put finished runs on one figure and in one table."""

    runs: Positional[tuple[Path, ...]]
    """Folders made by pgc train. If one of them has ε = ∞, AUC is also given relative to it."""
    out: Path = Path("compare")
    """Folder for compare.png and summary.json."""
    json: bool = False
    """Print the table as JSON and nothing else."""


@dataclass(frozen=True)
class Bench:
    """Measure, in one run, the embedded engine against plain PyTorch and NumPy loops of the same algorithm."""

    mechanism: str = "laplace"
    """The mechanism that is on: laplace or prs, with the paper's settings."""
    trials: int = 180
    """Trials side by side."""
    seconds: float = 15.0
    """How long each of them runs."""
    seed: int = 0
    """Of all of them."""
    engine_only: bool = False
    """Do not run the plain loops. (PyTorch's is run only if it is installed.)"""
    scale: bool = False
    """Measure instead how cost grows with trials, agents, dimensions and workers, on the host and on Ray if it is installed."""
    json: bool = False
    """Print the result as JSON and nothing else."""


def train(given: list[str]) -> int:
    """`pgc train`."""
    names = [f.name for f in fields(TrainConfig)]
    preset = configure(preset=_preset(given))
    args = parse(Train, "train", given, Train(**{name: getattr(preset, name) for name in names}))
    _resume_alone(given, args.resume, "--resume", "--json", "--checkpoint-seconds", "--processes", *WHO_PLAYS)
    config = None
    if args.resume is None:
        config = TrainConfig(**{name: getattr(args, name) for name in names})
    with Watch(quiet=args.json) as progress:
        run = training.train(
            config,
            out=args.out,
            resume=args.resume,
            progress=progress,
            checkpoint_seconds=args.checkpoint_seconds,
            engine=args.engine,
            address=args.address,
            processes=args.processes,
        )
    summary = run.summary
    if args.json:
        return print_json(summary)
    for key, words in TRAIN_LINES.items():
        if summary["threshold"] is not None or key not in OF_SUCCESS:
            print(f"{words:<26} {number(summary[key], ',.6g')}")
    if summary["threshold"] is None:
        print("Θ, the score of a success    none: --threshold gives one")
    print(run.path)
    return 0


TRAIN_LINES = {
    "epsilon": "ε of one agent, in all",
    "fst_median": "first success (median)",
    "success_ratio": "success ratio",
    "auc": "AUC",
    "final_score_mean": "final policy's score",
    "final_success_ratio": "final policy ≥ Θ",
    "averaged_score_mean": "averaged policy's score",
    "averaged_success_ratio": "averaged policy ≥ Θ",
    "env_steps": "environment steps",
    "seconds": "seconds",
}


OF_SUCCESS = ("fst_median", "success_ratio", "auc", "final_success_ratio", "averaged_success_ratio")


def evaluate(given: list[str]) -> int:
    """`pgc evaluate`."""
    args = parse(Evaluate, "evaluate", given)
    done = scoring.evaluate(
        args.run, policy=args.policy, episodes=args.episodes, seed=args.seed, population=args.population, gif=args.gif
    )
    if args.json:
        return print_json(done.summary)
    for name, score in done.summary["scores"].items():
        print(f"{name:<28} {score:6.1f}" + ("  trained on" if name in done.summary["trained_on"] else ""))
    print(done.path)
    return 0


def compare(given: list[str]) -> int:
    """`pgc compare`."""
    args = parse(Compare, "compare", given)
    result = scoring.compare(list(args.runs), out=args.out)
    if args.json:
        return print_json(result)
    print(f"{'run':<44} {'FST':>8} {'success':>8} {'AUC':>6} {'rel.':>6} {'final':>6} {'averaged ≥ Θ':>13}")
    for row in result["runs"]:
        relative = "" if row["relative_auc"] is None else f"{row['relative_auc']:.3f}"
        print(
            f"{row['label']:<44} {number(row['fst_median'], '.0f'):>8} {row['success_ratio']:>8.2f} {row['auc']:>6.3f} "
            f"{relative:>6} {row['final_score_mean']:>6.1f} {row['averaged_success_ratio']:>13.2f}"
        )
    print(args.out)
    return 0


def bench(given: list[str]) -> int:
    """`pgc bench`."""
    from pgc.bench import throughput  # its peers are optional

    args = parse(Bench, "bench", given)
    if args.scale:
        from pgc.bench import scaling

        with Watch(quiet=args.json) as progress:
            measured = scaling.scale(args.seconds, args.seed, progress)
        if args.json:
            return print_json(measured)
        print("\n".join(scaling.lines(measured)))
        return 0
    result = throughput.bench(args.mechanism, args.trials, args.seconds, args.seed, not args.engine_only)
    if args.json:
        return print_json(result)
    for key, value in result.items():
        print(f"{key:<26} {value:,.1f}" if isinstance(value, float) else f"{key:<26} {value}")
    return 0


def reproduce(given: list[str]) -> int:
    """`pgc reproduce`."""
    from pgc.studies.reproduction.reproduce import reproduce as run  # a missing extra is its own

    return _report(Reproduce, "reproduce", given, run)


def frontier(given: list[str]) -> int:
    """`pgc frontier`."""
    from pgc.studies.frontier.frontier import frontier as run  # a missing extra is its own

    return _report(Frontier, "frontier", given, run)


def _report(kind: type[Any], verb: str, given: list[str], run: Callable[..., Folder]) -> int:
    """A command that leaves a report."""
    args = parse(kind, verb, given)
    _resume_alone(given, args.resume, "--resume", "--json", *WHO_PLAYS)
    require("jinja2", "report")  # before an hour of work, not after
    with Watch(quiet=args.json) as progress:
        folder = run(**{f.name: getattr(args, f.name) for f in fields(args) if f.name != "json"}, progress=progress)
    if args.json:
        return print_json(folder.summary)
    meaning = folder.summary["meaning"]
    for paragraph in [meaning] if isinstance(meaning, str) else meaning.values():
        print(f"{paragraph}\n")
    print(folder.path / "report.html")
    print(folder.path)
    return 0


WHO_PLAYS = ("--engine", "--address")


def _resume_alone(given: list[str], resume: Path | None, *allowed: str) -> None:
    others = [a for a in given if a.startswith("--") and a.split("=")[0] not in allowed]
    if resume is not None and others:
        raise PgcError(f"--resume takes every setting from the run itself; drop {' '.join(others)}")


def _preset(given: list[str]) -> str:
    """The preset decides the defaults of all other flags, so it is read first."""
    for i, word in enumerate(given):
        if word == "--preset" and i + 1 < len(given):
            return given[i + 1]
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return "default"
