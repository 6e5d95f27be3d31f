"""How cost grows with trials, agents, dimensions and workers: `python benchmarks/scale.py --out docs/results/scale.json`.

The same as `pgc bench --scale --json`. docs/scale.md says what limits each, and plans a population from these numbers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pgc.bench.scaling import scale
from pgc.progress import Watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each measurement")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file")
    args = parser.parse_args()
    with Watch(quiet=False) as progress:
        made = scale(args.seconds, args.seed, progress)
    text = json.dumps(made, indent=1)
    print(text) if args.out is None else args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
