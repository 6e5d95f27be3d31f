"""`pgc bench`: environment steps/s and submissions/s of the compiled engine, beside plain loops.

All are measured in one run, one after another, because machines differ and are shared: only the
ratios mean anything.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import time
from dataclasses import replace
from typing import Any

import jax

from pgc.bench import numpy_loop, torch_loop
from pgc.bench.common import Settings
from pgc.config import PRESETS, configure
from pgc.config.problem import build, resolve
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.errors import PgcError

KNOWN = ("laplace", "prs")
ENDLESS = 10_000_000


def bench(
    mechanism: str, trials: int, seconds: float, seed: int, baselines: bool
) -> dict[str, Any]:
    """Measures the compiled engine and, with `baselines`, the plain loops; returns the numbers.

    Compilation is timed separately. Only steps of reports that arrived are counted: padding and
    waiting are not.
    """
    if mechanism not in KNOWN:
        raise PgcError(f"bench knows the mechanisms {' and '.join(KNOWN)}, not '{mechanism}'")
    if trials < 1 or not seconds > 0:
        raise PgcError("trials must be at least 1 and seconds greater than 0")
    compile_s, took, steps, submissions = _engine(mechanism, trials, seconds, seed)
    result: dict[str, Any] = {
        "device": jax.devices()[0].device_kind,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "mechanism": mechanism,
        "trials": trials,
        "seed": seed,
        "steps_per_s": steps / took,
        "submissions_per_s": submissions / took,
        "mean_episode": steps / max(submissions, 1),
        "compile_s": compile_s,
        "ratio_torch": None,
        "ratio_numpy": None,
    }
    if not baselines:
        return result
    paper = resolve(configure(preset="paper", mechanism=mechanism))
    assert paper.clip is not None and paper.buffer_size is not None
    settings = Settings(
        mechanism=mechanism,
        clip=paper.clip,
        buffer_size=paper.buffer_size,
        seed=seed,
        seconds=seconds,
    )
    for name, loop, needs in (("numpy", numpy_loop, "gymnasium"), ("torch", torch_loop, "torch")):
        if importlib.util.find_spec(needs) and importlib.util.find_spec("gymnasium"):
            counts = loop.run(settings)
            result[f"{name}_steps_per_s"] = counts.steps / counts.seconds
            result[f"{name}_submissions_per_s"] = counts.submissions / counts.seconds
            result[f"{name}_mean_episode"] = counts.steps / max(counts.submissions, 1)
            result[f"ratio_{name}"] = result["steps_per_s"] / result[f"{name}_steps_per_s"]
    return result


def _engine(
    mechanism: str, trials: int, seconds: float, seed: int
) -> tuple[float, float, int, int]:
    config = replace(
        PRESETS["paper"], mechanism=mechanism, trials=trials, seed=seed, submissions=ENDLESS
    )
    began = time.perf_counter()
    simulation = CompiledSimulation(build(config))
    simulation.advance_counting()
    first = time.perf_counter() - began
    steps, submissions, began = 0, 0, time.perf_counter()
    rounds = 0
    while time.perf_counter() - began < seconds:
        more = simulation.advance_counting()
        steps, submissions = steps + more[0], submissions + more[1]
        rounds += 1
    took = time.perf_counter() - began
    return max(0.0, first - took / rounds), took, steps, submissions
