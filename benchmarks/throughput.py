"""The table of the README: the engine against plain loops, for both mechanisms of the paper, in one run each.

python benchmarks/throughput.py                                    # two CPU cores, 180 trials
python benchmarks/throughput.py --trials 32768 --engine-only       # a GPU; needs neither Gymnasium nor PyTorch
"""

import argparse
import json

from pgc.bench.throughput import bench

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--trials", type=int, default=180)
parser.add_argument("--seconds", type=float, default=12.0)
parser.add_argument("--engine-only", action="store_true")
args = parser.parse_args()
for mechanism in ("laplace", "prs"):
    print(
        json.dumps(
            bench(mechanism, args.trials, args.seconds, seed=0, baselines=not args.engine_only)
        ),
        flush=True,
    )
