"""What each part of the default is worth: change one thing, leave the rest. Writes a table as JSON.

python benchmarks/ablation.py --out docs/results/ablation.json            # hours on two cores
python benchmarks/ablation.py --processes 16 --out …                      # one variant to a core
python benchmarks/ablation.py --world cartpole --only Adam                # a slice

CartPole at ε = 0.1, where the default is not yet perfect, and Pendulum at ε = 1; beside them both without privacy.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import optax

WORLDS = {
    "cartpole": dict(epsilon=0.1, submissions=4000),
    "pendulum": dict(epsilon=1.0, submissions=3000),
    "acrobot": dict(epsilon=1.0, submissions=1000),
}
OTHER_SUBSPACE = {"cartpole": "quadratic", "pendulum": "linear"}


def momentum(learning_rate):
    """Of 0.9; a step is worth ten."""
    return optax.sgd(learning_rate, momentum=0.9)


def decaying_cartpole(learning_rate):
    """From twice the step down to nothing over the 400 updates of the run."""
    return optax.sgd(optax.linear_schedule(2 * learning_rate, 0.0, 400))


def decaying_pendulum(learning_rate):
    """Likewise, over 300."""
    return optax.sgd(optax.linear_schedule(2 * learning_rate, 0.0, 300))


RULES = {
    "default": ({}, 1),
    "boxes of the space's limits": (dict(scales="limits"), 1),
    "half of σ": (dict(spread=0.41), 1),
    "twice σ": (dict(spread=1.64), 1),
    "γ = 0.99": (dict(discount=0.99), 1),
    "16 ReLU units": (dict(hidden=(16,)), 1),
    "a step that does not shrink": (dict(step_decay=math.inf), 1),
    "half the step": ({}, 0.5),
    "twice the step": ({}, 2),
    "half the local episodes": (dict(local_episodes=13), 1),
    "policy gradient": (dict(estimator="policy-gradient"), 1),
    "quadratic subspace": (dict(subspace="quadratic"), 1),
    "whole gradient": (dict(subspace="full"), 1),
    "no privacy": (dict(epsilon=math.inf), 1),
    "control (zero gradient)": (dict(control=True), 1),
}
"""What the rules for worlds beyond CartPole are worth: each is changed alone, on Acrobot at ε = 1."""


def variants(world):
    """By name, what is changed: settings, and by how much the rule's step is multiplied."""
    if world == "acrobot":
        return RULES
    return {
        "default": ({}, 1),
        "half the step": ({}, 0.5),
        "twice the step": ({}, 2),
        "half the local episodes": (dict(local_episodes=10), 1),
        "one local episode (policy gradient)": (dict(local_episodes=1), 1),
        "policy gradient": (dict(estimator="policy-gradient"), 1),
        "no local baseline": (dict(baseline="none"), 1),
        f"{OTHER_SUBSPACE[world]} subspace": (dict(subspace=OTHER_SUBSPACE[world]), 1),
        "random subspace (8)": (dict(subspace="random"), 1),
        "whole gradient": (dict(subspace="full"), 1),
        "whole gradient, a quarter of the step": (dict(subspace="full"), 0.25),
        "norm lift, C = 10": (dict(lift=True, clip=10.0), 1),
        "|B| = 1": (dict(buffer_size=1), 1),
        "|B| = 50": (dict(buffer_size=50), 1),
        "each report used twice": (dict(uses_per_report=2), 0.5),
        "momentum": (dict(optimizer="ablation:momentum"), 0.1),
        "Adam": (dict(optimizer="adam", learning_rate=0.1), None),
        "decaying step": (dict(optimizer=f"ablation:decaying_{world}"), 1),
        "average of the whole run": (dict(average_from=0.0), 1),
        "Glorot start": (dict(initial="glorot"), 1),
        "no output cap" if world == "cartpole" else "output cap 2": (
            dict(output_cap=math.inf if world == "cartpole" else 2.0), 1,
        ),
        "raw observations": (dict(normalize=False), 1),
        "no privacy": (dict(epsilon=math.inf), 1),
        "no privacy, half the step": (dict(epsilon=math.inf), 0.5),
        "no privacy, twice the step": (dict(epsilon=math.inf), 2),
        "control (zero gradient)": (dict(control=True), 1),
    }  # fmt: skip


def measure(job):
    """One row of the table."""
    world, name, trials, seed = job
    sys.path.insert(0, str(Path(__file__).parent))  # for the optimisers of this file
    from pgc.config import configure
    from pgc.config.problem import build
    from pgc.runs import metrics
    from pgc.runs.folder import Folder
    from pgc.runs.sweep import Cell, run

    changed, step = variants(world)[name]
    settings = WORLDS[world] | dict(world=world, trials=trials, seed=seed) | changed
    if step is not None:
        settings["learning_rate"] = step * build(configure(**settings)).config.learning_rate
    problem = build(configure(**settings))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run([Cell(name="a", config=problem.config)], Folder(Path(folder)))["a"]
    first = float(metrics.median(outcome.fst))
    threshold = problem.training.world.score_threshold
    return {
        "world": world,
        "variant": name,
        "epsilon": problem.config.epsilon if math.isfinite(problem.config.epsilon) else None,
        "submissions": problem.config.submissions,
        "trials": trials,
        "seed": seed,
        "learning_rate": round(problem.config.learning_rate, 6),
        "fst_median": first if math.isfinite(first) else None,
        "success_ratio": float(np.mean(np.isfinite(outcome.fst))),
        "averaged_good": float(np.mean(outcome.averaged >= threshold)),
        "averaged_median": float(np.median(outcome.averaged).round(1)),
        "last_good": float(np.mean(outcome.final >= threshold)),
        "last_median": float(np.median(outcome.final).round(1)),
        "steps_per_report": float((outcome.steps.sum() / outcome.received.sum()).round(1)),
        "seconds": round(time.monotonic() - started),
    }


def on_its_own_core(cores):
    """So that variants side by side do not wait for each other."""
    os.sched_setaffinity(0, {cores.get()})


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", choices=WORLDS, action="append")
    parser.add_argument(
        "--only", action="append", metavar="VARIANT", help="one of them; may be given again"
    )
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    worlds = args.world or WORLDS
    unknown = set(args.only or ()) - {name for world in worlds for name in variants(world)}
    if unknown:
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    jobs = [
        (w, v, args.trials, args.seed)
        for w in worlds
        for v in variants(w)
        if not args.only or v in args.only
    ]
    context = multiprocessing.get_context("spawn")
    rows = []

    def note(row):
        rows.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)
        if args.out:
            ordered = sorted(
                rows, key=lambda r: jobs.index((r["world"], r["variant"], r["trials"], r["seed"]))
            )
            args.out.write_text(json.dumps(ordered, ensure_ascii=False, indent=1) + "\n")

    if args.processes == 1:
        for job in jobs:
            note(measure(job))
        return
    cores = context.Queue()
    for core in range(args.processes):
        cores.put(core)
    with context.Pool(args.processes, on_its_own_core, (cores,)) as pool:
        for row in pool.imap_unordered(measure, sorted(jobs, key=lambda job: job[0] != "pendulum")):
            note(row)


if __name__ == "__main__":
    main()
