"""How cost grows with trials, agents, dimensions and workers: `python benchmarks/scale.py --out docs/results/scale.json`.

The same as `pgc bench --scale --json`. docs/scale.md says what limits each, and plans a population from these numbers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pgc.bench.scaling import scale
from pgc.runs.progress import Watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each measurement")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="parts: trials, agents, dimensions, update, host, slow, sharded",
    )
    parser.add_argument("--out", type=Path, help="a JSON file; parts that it has already are kept")
    args = parser.parse_args()
    with Watch(quiet=False) as progress:
        made = scale(args.seconds, args.seed, progress, args.only)
    if args.only:
        made = {
            part: made[part] | {"seconds": args.seconds}
            if isinstance(made[part], dict)
            else made[part]
            for part in args.only
        }
    if args.out is not None and args.out.exists():
        made = json.loads(args.out.read_text()) | made
    text = json.dumps(made, indent=1)
    print(text) if args.out is None else args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
