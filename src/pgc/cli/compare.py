"""`pgc compare`: puts several runs on one figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import Json, RunCode
from pgc.cli.parsing import number, parse, print_json
from pgc.runs import evaluate as scoring


@dataclass(frozen=True)
class Compare:
    """Put finished runs on one figure and in one table."""

    runs: Positional[tuple[Path, ...]]
    """Folders made by pgc train. If one of them has ε = ∞, AUC is also given relative to it."""
    out: Path = Path("compare")
    """Folder for compare.png and summary.json."""
    run_code: RunCode = False
    json: Json = False


def compare(given: list[str]) -> int:
    """Runs `pgc compare` with the given flags."""
    args = parse(Compare, "compare", given)
    result = scoring.compare(list(args.runs), out=args.out, run_code=args.run_code)
    if args.json:
        return print_json(result)
    print(
        f"{'run':<44} {'FST':>8} {'success':>8} {'AUC':>6} {'rel.':>6} {'final':>6} "
        f"{'averaged ≥ Θ':>13}"
    )
    for row in result["runs"]:
        relative = "" if row["relative_auc"] is None else f"{row['relative_auc']:.3f}"
        print(
            f"{row['label']:<44} {number(row['fst_median'], '.0f'):>8} "
            f"{row['success_ratio']:>8.2f} {row['auc']:>6.3f} "
            f"{relative:>6} {row['final_score_mean']:>6.1f} {row['averaged_success_ratio']:>13.2f}"
        )
    print(args.out)
    return 0
