"""The table of the README: the engine against plain loops, for both mechanisms of the paper, in one run each.

python benchmarks/throughput.py
"""

import json

from pgc.bench.throughput import bench

for mechanism in ("laplace", "prs"):
    print(json.dumps(bench(mechanism, trials=180, seconds=15.0, seed=0, baselines=True)))
