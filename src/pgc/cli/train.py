"""`pgc train`: trains a policy for a population of private worlds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from pgc.cli.fields import WHO_PLAYS, Address, Engine, Json, Out, RunCode
from pgc.cli.parsing import number, parse, print_json, resume_alone
from pgc.config import TrainConfig, configure
from pgc.config.config import FILLED_IN, SECTIONS
from pgc.errors import require
from pgc.runs.progress import CHECKPOINT_SECONDS, Watch


@dataclass(frozen=True, kw_only=True)
class Train(TrainConfig):
    """Train one policy for a population of private worlds under ε-local differential privacy.

    Leaves a folder with config.yaml, metrics/ (one row per submission), policy.safetensors,
    curve.png, privacy.json and summary.json, and prints its path last. Ctrl-C leaves a checkpoint
    for --resume.
    """

    out: Out = None
    resume: Path | None = None
    """Continue the run in this folder from its checkpoint, to the bit-identical result. Its
    settings cannot be changed."""
    engine: Engine = "local"
    address: Address = None
    processes: int | None = None
    """How many processes play at the same time, for a world that plays on the host or on a Ray
    cluster; by default one for each core."""
    gif: bool = False
    """Also draw learning.gif: an episode before learning, and one after."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Seconds between checkpoints, and so the work that a kill can lose. Never changes a result."""
    run_code: RunCode = False
    json: Json = False


FIRST = (
    "epsilon", "world", "population", "submissions", "trials", "seed", "mechanism", "preset",
    "start", "gif", "out", "resume",
)  # fmt: skip
"""The flags that `pgc train --help` shows."""


def train(given: list[str]) -> int:
    """Runs `pgc train` with the given flags."""
    names = [f.name for f in fields(TrainConfig)]
    preset = configure(preset=_preset(given))
    args = parse(
        Train,
        "train",
        given,
        Train(**{name: getattr(preset, name) for name in names}),
        first=FIRST,
        sections=SECTIONS | {"out": "This command"},
        hidden=FILLED_IN,
    )
    resume_alone(
        given,
        args.resume,
        "--resume",
        "--json",
        "--gif",
        "--checkpoint-seconds",
        "--processes",
        "--run-code",
        *WHO_PLAYS,
    )
    config = None
    if args.resume is None:
        config = TrainConfig(**{name: getattr(args, name) for name in names})
    run_train = require("pgc.runs.train", "train").train  # not for --help: it loads JAX
    ended = args.resume is not None and (args.resume / "summary.json").exists()

    with Watch(quiet=args.json) as progress:
        run = run_train(
            config,
            out=args.out,
            resume=args.resume,
            progress=progress,
            gif=args.gif,
            checkpoint_seconds=args.checkpoint_seconds,
            engine=args.engine,
            address=args.address,
            processes=args.processes,
            run_code=args.run_code,
        )
    summary = run.summary
    if args.json:
        return print_json(summary)
    for key, words in TRAIN_LINES.items():
        if summary["threshold"] is not None or key not in OF_SUCCESS:
            whole = isinstance(summary[key], int)
            print(f"{words:<26} {number(summary[key], ',d' if whole else ',.6g')}")
    if summary["threshold"] is None:
        print("Θ, the score of a success    none: --threshold gives one")
    if run.config.bounds is not None:
        print(f"{'observations scaled by':<26} {_short(run.config.bounds)}  (--bounds)")
    pictures = [name for name in ("curve.png", "learning.gif") if (run.path / name).exists()]
    print(f"{'pictures in the folder':<26} {', '.join(pictures)}")
    for words in summary["warnings"]:
        print(f"warning: {words}")
    if ended:
        print(f"it was already complete; to learn on from its policy: --start {run.path}")
    print(run.path)
    return 0


MOST_BOUNDS = 4
"""How many numbers of a box are shown; config.yaml has all."""
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


def _short(bounds: tuple[str, ...]) -> str:
    """Writes the first few ranges of a box with three digits."""
    shown = []
    for text in bounds[:MOST_BOUNDS]:
        index, _, ends = text.partition("=")
        low, high = map(float, ends.split(":"))
        shown.append(f"{index}={low:.3g}:{high:.3g}")
    return " ".join(shown) + (" …" if len(bounds) > MOST_BOUNDS else "")


def _preset(given: list[str]) -> str:
    """Returns the preset, which is read first: it decides the defaults of all other flags."""
    for i, word in enumerate(given):
        if word == "--preset" and i + 1 < len(given):
            return given[i + 1]
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return "default"
