"""`pgc compare`: puts several runs on one figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import DrawnAs, Json, Out, RunCode
from pgc.cli.parsing import number, parse, print_json
from pgc.runs import evaluate as scoring
from pgc.runs.figures import FOLLOW
from pgc.runs.folder import new_path


@dataclass(frozen=True)
class Compare:
    """Put finished runs on one figure and in one table, and say in which settings they differ.

    Leaves a folder with compare.png (or compare.pdf) and summary.json, and prints its path last.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders made by pgc train. If one of them has ε = ∞, AUC is also given relative to it. Runs
    of different lengths are compared over the submissions that all of them have."""
    labels: tuple[str, ...] | None = None
    """What to call each run, in the order in which they are named; by default what it is."""
    style: DrawnAs = "screen"
    out: Out = None
    run_code: RunCode = False
    json: Json = False


def compare(given: list[str]) -> int:
    """Runs `pgc compare` with the given flags."""
    args = parse(Compare, "compare", given)
    out = new_path("compare") if args.out is None else args.out
    result = scoring.compare(
        list(args.runs), out=out, labels=args.labels, style=args.style, run_code=args.run_code
    )
    if args.json:
        return print_json(result)
    differs, ruled = result["differs"], [name for name in result["differs"] if name in FOLLOW]
    if ruled and ruled != differs:
        differs = [name for name in differs if name not in FOLLOW]
        so = f" (and in {', '.join(map(flag, ruled))}, which may follow from that)"
    else:
        so = ""
    print(f"the runs differ in: {', '.join(map(flag, differs)) or 'nothing'}{so}")
    print(
        f"FST, success and AUC: over the first {result['compared_submissions']:,} submissions. "
        "Scores: at the end of each run\n"
    )
    wide = max(len(row["label"]) for row in result["runs"])
    relative = any(row["relative_auc"] is not None for row in result["runs"])
    beside = f"{'÷ no privacy':>13} " if relative else ""
    print(
        f"{'run':<{wide}} {'FST':>8} {'success':>8} {'AUC':>6} {beside}{'score: last':>12} "
        f"{'averaged':>9} {'averaged ≥ Θ':>13}"
    )
    for row in result["runs"]:
        beside = f"{number(row['relative_auc'], '.3f'):>13} " if relative else ""
        print(
            f"{row['label']:<{wide}} {number(row['fst_median'], '.0f'):>8} "
            f"{row['success_ratio']:>8.2f} {row['auc']:>6.3f} {beside}"
            f"{row['final_score_mean']:>12.1f} {row['averaged_score_mean']:>9.1f} "
            f"{row['averaged_success_ratio']:>13.2f}"
        )
    for label in result["no_better_than_control"]:
        print(f"warning: {label}: its averaged policy is no better than that of a control")
    print(out)
    return 0


def flag(name: str) -> str:
    """Returns the flag of a setting, as it is typed."""
    return "--" + name.replace("_", "-")
