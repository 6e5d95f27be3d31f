"""`pgc evaluate`: scores a saved policy, world by world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import DrawnAs, Json, RunCode
from pgc.cli.parsing import parse, print_json
from pgc.runs import evaluate as scoring


@dataclass(frozen=True)
class Evaluate:
    """Score the policy of a finished run, world by world, inside and outside the population it was
    trained on.

    Writes evaluation.json and evaluation.png (or .pdf) into the run folder.
    """

    run: Positional[Path]
    """A folder made by pgc train."""
    policy: str = "averaged"
    """Which of the saved policies: averaged, or theta (the last one)."""
    episodes: int = 100
    """Greedy episodes for each ψ."""
    seed: int = 1
    """The seed of the start states."""
    population: tuple[str, ...] | None = None
    """Score at these ψ instead: FIELD=v1,v2,… or FIELD=low:high."""
    gif: bool = False
    """Also draw one episode as episode.gif."""
    style: DrawnAs = "screen"
    run_code: RunCode = False
    json: Json = False


def evaluate(given: list[str]) -> int:
    """Runs `pgc evaluate` with the given flags."""
    args = parse(Evaluate, "evaluate", given)
    done = scoring.evaluate(
        args.run,
        policy=args.policy,
        episodes=args.episodes,
        seed=args.seed,
        population=args.population,
        gif=args.gif,
        style=args.style,
        run_code=args.run_code,
    )
    if args.json:
        return print_json(done.summary)
    for name, score in done.summary["scores"].items():
        print(
            f"{name:<28} {score:6.1f}"
            + ("  trained on" if name in done.summary["trained_on"] else "")
        )
    print(done.path)
    return 0
