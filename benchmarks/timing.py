"""Does the time of a report tell two homes apart?

    python benchmarks/timing.py                  # about six minutes; docs/results/timing.json

Two homes play CartPole with the same θ. In one of them the pole stands for the whole episode, in the other it falls after some
steps (its motor is wired the other way round). Both answer offers of ε = 0.01 in random order. Whoever sees only how long each
answer took chooses the best threshold on one half of the answers; how often it is right about the other half is printed, with a
95 % interval. At ε = 0.01 a report itself allows e^ε/(1 + e^ε) = 50.25 %. Three devices: one that answers as soon as it can, one
with fixed steps alone, and one with slots and fixed steps, which is what `pgc` does unless told otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np
from scipy import stats

import pgc
from pgc.local_training.numpy_player import NumpyPlayer
from pgc.local_training.recipe import Recipe
from pgc.randomise.mechanisms.registry import make_mechanism

RECIPE = Recipe(
    bounds=((-2.4, 2.4), (-3, 3), (-0.21, 0.21), (-3, 3)),
    actions=2,
    max_steps=100,
    score_threshold=95.0,
    hidden=(),
    spread=0.01,
)
LEAN = np.array([0.1, 0.5, 3.0, 3.0])
THETA = np.concatenate([-LEAN, LEAN, np.zeros(4)]).astype(np.float32)
"""Pushes to the side to which the pole leans; the last four numbers are of the value, which is not used."""


def make_home(stands: bool):
    """A pole that this θ balances, or one that falls soon."""
    home = gymnasium.make("CartPole-v1").unwrapped
    if not stands:
        home.force_mag = -10.0
    return home


def answers(slot: float, fixed_steps: bool, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which home it was, and how many seconds its answer took, `count` times for each."""
    with tempfile.TemporaryDirectory() as folder:
        devices = [
            pgc.Device.create(
                Path(folder) / f"{stands}.db",
                1000.0,
                player=NumpyPlayer(make_home(bool(stands)), RECIPE, fixed_steps=fixed_steps),
                slot_seconds=slot,
            )
            for stands in (0, 1)
        ]
        query = pgc.Query.of(make_mechanism("duchi", dim=4, epsilon=0.01, clip=1.0))
        order = [0, 1] * count
        random.Random(0).shuffle(order)
        seconds = []
        for n, which in enumerate(order):
            offer = pgc.Offer(
                offer_id=n,
                policy_version=1,
                query=query,
                episodes=1,
                theta=THETA,
                basis=np.eye(12, 4, dtype=np.float32),
            )
            begun = time.perf_counter()
            devices[which].answer(offer)
            seconds.append(time.perf_counter() - begun)
        balances = [device.balance for device in devices]
        assert all(b.untimed == (0 if slot else b.reports) for b in balances)
    return np.array(order), np.array(seconds)


def guessed(which: np.ndarray, seconds: np.ndarray) -> dict[str, float]:
    """How often the best threshold of the first half is right about the second."""
    half = len(which) // 2
    cuts = np.quantile(seconds[:half], np.linspace(0.005, 0.995, 199))
    right = np.array([np.mean((seconds[:half] > cut) == which[:half]) for cut in cuts])
    above = bool(right.max() >= 1 - right.min())
    cut = cuts[right.argmax() if above else right.argmin()]
    hits = int(np.sum(((seconds[half:] > cut) == above) == which[half:]))
    test = stats.binomtest(hits, len(which) - half, 0.5)
    low, high = test.proportion_ci()
    return {"right": hits / (len(which) - half), "low": low, "high": high, "p": test.pvalue}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=1000, help="of each home")
    parser.add_argument("--slot", type=float, default=0.06, help="seconds")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    args = parser.parse_args()
    result = {"reports_of_each_home": args.reports, "slot_seconds": args.slot, "epsilon": 0.01}
    for name, slot, fixed in (
        ("at once", 0.0, False),
        ("fixed steps", 0.0, True),
        ("slots and fixed steps", args.slot, True),
    ):
        which, seconds = answers(slot, fixed, args.reports)
        result[name] = guessed(which, seconds) | {
            "median_ms": [1e3 * float(np.median(seconds[which == home])) for home in (0, 1)]
        }
        r = result[name]
        print(
            f"{name:<24} right about {100 * r['right']:.1f} % (95 %: {100 * r['low']:.1f} to {100 * r['high']:.1f}); "
            f"medians {r['median_ms'][0]:.2f} and {r['median_ms'][1]:.2f} ms",
            flush=True,
        )
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
