"""The command line: one sub-command a verb. `pgc --help` is the table of contents."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pgc import __version__
from pgc.errors import PgcError, require

Command = TypeVar("Command")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Errors a user can cause are one line and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(_contents())
        return 0
    if given[0] == "--version":
        print(f"pgc {__version__}")
        return 0
    verb, rest = given[0], given[1:]
    try:
        if verb not in COMMANDS:
            raise PgcError(f"unknown command '{verb}'; choose one of: {', '.join(COMMANDS)} (pgc --help)")
        return COMMANDS[verb][1](rest)
    except PgcError as error:
        print(f"pgc: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("pgc"):
            print(f"pgc: {error.name} is not installed; mend it with: pip install 'pgc[train]'", file=sys.stderr)
            return 2
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _contents() -> str:
    lines = [f"    pgc {verb:<10} {summary}" for verb, (summary, _) in COMMANDS.items()]
    return "\n".join(
        [
            "pgc: Private Gradient Collection, locally private distributed reinforcement learning",
            "",
            "A central aggregator that nobody has to trust hands out a policy θ; each private agent plays it in its own",
            "world, computes one gradient, randomises it on its own device so that ε-local differential privacy holds,",
            "and sends only that; the aggregator updates θ and hands it out again.",
            "",
            *lines,
            "",
            "Each command explains itself:  pgc COMMAND --help",
            "Start here:                    pgc train",
        ]
    )


def _parse(kind: type[Command], verb: str, given: list[str], default: Command | None = None) -> Command:
    tyro = require("tyro", "train")
    parsed: Command = tyro.cli(
        kind, prog=f"pgc {verb}", args=given, **({} if default is None else {"default": default}),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )  # fmt: skip
    return parsed


def _train(given: list[str]) -> int:
    from pgc.config import PRESETS, TrainConfig
    from pgc.experiments.training import Interrupted, train

    @dataclass(frozen=True, kw_only=True)
    class Train(TrainConfig):
        __doc__ = TrainConfig.__doc__

        out: Path | None = None
        """Folder for the results; by default a new one under runs/."""
        resume: Path | None = None
        """Continue this run folder from its checkpoint, to the bit-identical result. Takes no other setting."""
        json: bool = False
        """Print the summary as JSON and nothing else."""

    names = [f.name for f in fields(TrainConfig)]
    preset = _preset(given)
    if preset not in PRESETS:
        raise PgcError(f"unknown preset '{preset}'; choose one of: {', '.join(PRESETS)}")
    args = _parse(Train, "train", given, Train(**{name: getattr(PRESETS[preset], name) for name in names}))
    if args.resume is not None:
        others = [a for a in given if a.startswith("--") and a.split("=")[0] not in ("--resume", "--json")]
        if others:
            raise PgcError(f"--resume takes every setting from the run itself; drop {' '.join(others)}")
    config = None if args.resume is not None else TrainConfig(**{name: getattr(args, name) for name in names})
    try:
        with _Progress(quiet=args.json) as progress:
            run = train(config, out=args.out, resume=args.resume, progress=progress)
    except Interrupted as stopped:
        print(f"pgc: {stopped}", file=sys.stderr)
        return 130
    _print_result(run.summary, run.path, args.json, _TRAIN_LINES)
    return 0


def _preset(given: list[str]) -> str:
    """The preset decides the defaults of all other flags, so it is read first."""
    for i, word in enumerate(given):
        if word == "--preset" and i + 1 < len(given):
            return given[i + 1]
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return "default"


def _evaluate(given: list[str]) -> int:
    from tyro.conf import Positional

    from pgc.experiments.scoring import evaluate

    @dataclass(frozen=True)
    class Evaluate:
        """Score the policy of a finished run, world by world, inside and outside the population it was trained on."""

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

    args = _parse(Evaluate, "evaluate", given)
    done = evaluate(
        args.run, policy=args.policy, episodes=args.episodes, seed=args.seed, population=args.population, gif=args.gif
    )
    if args.json:
        print(json.dumps(done.summary, ensure_ascii=False))
        return 0
    for name, score in done.summary["scores"].items():
        mark = "trained on" if name in done.summary["trained_on"] else ""
        print(f"{name:<28} {score:6.1f}  {mark}")
    print(done.path)
    return 0


def _compare(given: list[str]) -> int:
    from tyro.conf import Positional

    from pgc.experiments.scoring import compare

    @dataclass(frozen=True)
    class Compare:
        """Put finished runs on one figure and in one table."""

        runs: Positional[tuple[Path, ...]]
        """Folders made by pgc train. If one of them has ε = ∞, AUC is also given relative to it."""
        out: Path = Path("compare")
        """Folder for compare.png and summary.json."""
        json: bool = False
        """Print the table as JSON and nothing else."""

    args = _parse(Compare, "compare", given)
    result = compare(list(args.runs), out=args.out)
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
        return 0
    print(f"{'run':<52} {'FST':>8} {'success':>8} {'AUC':>6} {'rel.':>6} {'final':>6} {'averaged ≥ Θ':>13}")
    for row in result["runs"]:
        print(
            f"{row['label']:<52} {_number(row['fst_median'], '.0f'):>8} {row['success_ratio']:>8.2f} {row['auc']:>6.3f} "
            f"{_number(row['relative_auc'], '.3f'):>6} {row['final_score_mean']:>6.1f} {row['averaged_success_ratio']:>13.2f}"
        )
    print(args.out)
    return 0


def _bench(given: list[str]) -> int:
    from pgc.bench.throughput import bench

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
        baselines: bool = True
        """Also run the plain loops (PyTorch only if it is installed)."""
        json: bool = False
        """Print the result as JSON and nothing else."""

    args = _parse(Bench, "bench", given)
    result = bench(args.mechanism, args.trials, args.seconds, args.seed, args.baselines)
    if args.json:
        print(json.dumps(result))
        return 0
    for key, value in result.items():
        print(f"{key:<26} {value:,.1f}" if isinstance(value, float) else f"{key:<26} {value}")
    return 0


_TRAIN_LINES = {
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


def _print_result(summary: dict[str, Any], path: Path, as_json: bool, lines: dict[str, str]) -> None:
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    for key, words in lines.items():
        print(f"{words:<26} {_number(summary[key], ',.6g')}")
    print(path)


def _number(value: float | None, form: str) -> str:
    return "∞" if value is None else format(value, form)


class _Progress:
    """A bar with submissions/s and μ on a terminal; a line every ten seconds elsewhere; nothing when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._said = self._began = time.monotonic()
        self._first: int | None = None

    def __enter__(self) -> Callable[[int, int, float], None] | None:
        return None if self._quiet else self._show

    def _show(self, done: int, total: int, mu: float) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = done, now
        rate = (done - self._first) / max(now - self._began, 1e-9)
        if not sys.stderr.isatty():
            if now - self._said > 10 or done >= total:
                self._said = now
                print(f"{done:,} of {total:,} submissions, {rate:,.0f}/s, μ = {mu:.1f}", file=sys.stderr, flush=True)
            return
        if self._bar is None:
            progress = require("rich.progress", "train")
            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[words]}"), progress.TimeRemainingColumn(),
                console=require("rich.console", "train").Console(stderr=True),
            )  # fmt: skip
            self._bar.start()
            self._task = self._bar.add_task("submissions", total=total, words="")
        self._bar.update(self._task, completed=done, words=f"{rate:,.0f}/s  μ = {mu:.1f}")

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


COMMANDS: dict[str, tuple[str, Callable[[list[str]], int]]] = {
    "train": ("a policy for a population of private worlds, under ε-local differential privacy", _train),
    "evaluate": ("a saved policy, world by world; a picture or a GIF", _evaluate),
    "compare": ("several runs on one figure", _compare),
    "bench": ("throughput beside plain PyTorch and NumPy loops, in one run", _bench),
}


if __name__ == "__main__":
    sys.exit(main())
