"""What NVIDIA FLARE's stock filter SVTPrivacy really spends on one result: lower bounds on ε, from its own outputs.

    python benchmarks/flare_svt.py [--draws 5000]

Local privacy compares any two inputs. For each pair of inputs and each event, the filter is called many times on both, and the
counts give a lower bound on ε at 99 % (Clopper and Pearson, half a percent for each side). Beside it stands what the filter's
own accountant says of one call. It needs nvflare (`pip install 'pgc[flare]'`).
"""

import argparse
import json
import logging
import math

import numpy as np
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.filters.svt_privacy import SVTPrivacy
from scipy.stats import beta

GAMMA, NOISE_VAR = 1e-5, 0.1
"""The filter's defaults."""


def released(svt, weights):
    """What leaves a site for these weights."""
    dxo = DXO(DataKind.WEIGHT_DIFF, data={name: value.copy() for name, value in weights.items()})
    return svt.process(dxo.to_shareable(), FLContext())["DXO"]["data"]


def bound(hits, misses, draws, alpha=0.005):
    """A lower bound on ε from how often an event happened for either input."""
    low = beta.ppf(alpha, hits, draws - hits + 1) if hits else 0.0
    high = beta.ppf(1 - alpha, misses + 1, draws - misses) if misses < draws else 1.0
    return math.log(low / high) if low > 0 else 0.0


def numbers(data):
    """All numbers that were released and are not 0."""
    every = np.concatenate([np.ravel(value) for value in data.values()]).astype(float)
    return every[every != 0]


def can_be_made_of_zero(y, scale):
    """Whether 0 + np.random.laplace(scale) can be this very number: its formula, for all random numbers near the inverse."""
    half = math.exp(-abs(y) / scale) / 2
    k = round((half if y < 0 else 1 - half) * 2.0**53)
    for u in ((k + d) * 2.0**-53 for d in range(-4, 5)):
        if 0 < u < 1:
            made = -scale * math.log(2.0 - u - u) if u >= 0.5 else scale * math.log(u + u)
            if made == y:
                return True
    return False


def measured(name, weights, others, event, draws, seed):
    """One row: counts for both inputs, the bound, and what the accountant says."""
    svt = SVTPrivacy()
    np.random.seed(seed)
    counts = [sum(bool(event(released(svt, w))) for _ in range(draws)) for w in (weights, others)]
    least = max(bound(*counts, draws), bound(draws - counts[1], draws - counts[0], draws))
    says = svt.get_privacy_ledger()[-1].get("epsilon_total")
    row = {
        "case": name,
        "draws": draws,
        "seed": seed,
        "counts": counts,
        "epsilon_at_least": round(least, 2),
        "accountant": says,
    }
    print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=5000)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    many = 112
    upload = math.ceil(0.1 * many)
    scale = GAMMA * 2 * upload / (upload * NOISE_VAR)
    measured(
        "112 numbers in f64, zeros against γ: is every number one that Laplace noise around zero can be?",
        {"w": np.zeros(many)},
        {"w": np.full(many, GAMMA)},
        lambda data: all(can_be_made_of_zero(float(y), scale) for y in numbers(data)),
        10 * args.draws,
        1,
    )
    up, down = (np.full(10_000, sign * GAMMA, np.float32) for sign in (1, -1))
    spread = 20 * GAMMA

    def likelier(data):
        y = numbers(data)
        return (np.abs(y + GAMMA) - np.abs(y - GAMMA)).sum() / spread > 4

    measured(
        "10,000 numbers in f32, γ against −γ: log likelihood ratio above 4",
        {"w": up},
        {"w": down},
        likelier,
        args.draws,
        2,
    )
    scalars = [{"w": up, "log_std": np.float32(value)} for value in (0, GAMMA)]
    measured(
        "a scalar parameter, 0 against γ: is it 0?",
        *scalars,
        lambda data: float(data["log_std"]) == 0,
        2000,
        4,
    )


if __name__ == "__main__":
    main()
