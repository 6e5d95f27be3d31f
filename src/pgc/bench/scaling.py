"""`pgc bench --scale`: how cost grows with trials, agents, dimensions and workers.

Only measurements of one run are compared with each other.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import platform
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.bench import torch_loop
from pgc.bench.common import Settings
from pgc.config import configure
from pgc.config.problem import build, resolve
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.engines.crew import Crew, local_crew
from pgc.engines.host import HostSimulation
from pgc.errors import PgcError, require
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.release import release
from pgc.runs.progress import Progress
from pgc.update.aggregator import Aggregator
from pgc.wire import Offer, Query, Report

ENDLESS = 500_000
TRIALS = (1, 32, 128, 512)
AGENTS = (1, 9, 90)
DIMENSIONS = (10**2, 10**3, 10**4, 10**5, 10**6)
ON_THE_WIRE = ("duchi", "prs", "index", "laplace")
MOST_OF_LAPLACE = 10**5
"""The largest dimension at which laplace is measured: beyond it, a report takes seconds and
megabytes."""
WORKERS = (1, 2)


def scale(
    seconds: float, seed: int, progress: Progress | None = None, only: Collection[str] = ()
) -> dict[str, Any]:
    """Measures everything that is installed here, or the parts in `only`; returns the numbers.

    Each rate is measured for about `seconds` seconds.
    """
    if not seconds > 0:
        raise PgcError("seconds must be greater than 0")
    require("gymnasium", "gymnasium")
    parts: dict[str, Callable[[], Any]] = {
        "trials": lambda: [_compiled(seconds, seed, trials=n) for n in TRIALS],
        "agents": lambda: [_compiled(seconds, seed, trials=32, workers=n) for n in AGENTS],
        "dimensions": lambda: [row for d in DIMENSIONS for row in _reports(d, seed)],
        "update": lambda: [_update(d) for d in DIMENSIONS],
        "host": lambda: _host(seconds, seed),
        "slow": lambda: _slow(seconds, seed),
    }
    if importlib.util.find_spec("ray"):
        parts["sharded"] = lambda: _sharded(seconds, seed)
    parts = {name: measure for name, measure in parts.items() if not only or name in only}
    made: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seconds": seconds,
        "seed": seed,
    }
    for done, (name, measure) in enumerate(parts.items()):
        if progress:
            progress(done, len(parts), name)
        made[name] = measure()
    if progress:
        progress(len(parts), len(parts), "done")
    return made


def _compiled(seconds: float, seed: int, **settings: Any) -> dict[str, Any]:
    """Measures the compiled engine with a number of trials or workers, in the default setting."""
    gc.collect()
    before = _memory()
    simulation = CompiledSimulation(build(configure(submissions=ENDLESS, seed=seed, **settings)))
    rate = _rate(seconds, simulation.advance_counting)
    return {**settings, **rate, "mib": _memory() - before}


def _reports(dim: int, seed: int) -> Iterator[dict[str, Any]]:
    """Measures one report at ε = 1: encoding it on a device, and decoding it on the aggregator."""
    gradient = np.random.default_rng(seed).standard_normal(dim)
    for name in ON_THE_WIRE:
        if name == "laplace" and dim > MOST_OF_LAPLACE:
            continue
        mechanism = make_mechanism(name, dim=dim, epsilon=1.0, clip=1.0)
        offer = Offer(
            offer_id=seed + 1,
            policy_version=0,
            query=Query.of(mechanism),
            theta=np.zeros(dim, np.float32),
        )
        encode, data = _cpu(partial(_reported, offer, gradient))
        decode, _ = _cpu(partial(_estimated, offer, data))
        yield {
            "mechanism": name,
            "d": dim,
            "bytes": len(data),
            "encode_ms": 1e3 * encode,
            "decode_ms": 1e3 * decode,
        }


def _reported(offer: Offer, gradient: np.ndarray) -> bytes:
    code = release(offer.query.mechanism, gradient, offer.public_seed)
    return Report(offer_id=offer.offer_id, policy_version=0, code=code).encode(offer)


def _estimated(offer: Offer, data: bytes) -> np.ndarray:
    return Report.decode(data, offer).vector(offer)


def _update(dim: int) -> dict[str, Any]:
    """Measures how long the aggregator takes to accept one decoded report."""
    import optax

    aggregator = Aggregator(optimizer=optax.sgd(1.0), learning_rate=0.1, buffer_size=10)
    accept = jax.jit(aggregator.accept)
    state, report, version = (
        aggregator.start(jnp.zeros(dim)),
        jnp.ones(dim),
        jnp.zeros((), jnp.int32),
    )
    took, _ = _cpu(lambda: accept(state, report, version).theta.block_until_ready(), 20)
    return {"d": dim, "accept_ms": 1e3 * took}


def _host(seconds: float, seed: int) -> dict[str, Any]:
    """Measures Gymnasium's CartPole on every core, beside the plain PyTorch loop.

    It is measured in the paper's setting and in the default one.
    """
    made: dict[str, Any] = {}
    paper = dict(
        preset="paper",
        world="gymnasium:CartPole-v1",
        max_steps=200,
        threshold=195.0,
        normalize=False,
    )
    own = dict(world="gymnasium:CartPole-v1", max_steps=200, threshold=195.0)
    with local_crew(None) as crew:
        for name, settings in (("paper", paper), ("default", own)):
            made[name] = _host_rate(
                seconds, crew, trials=20, population=("gravity=9.7,9.8,9.9",), seed=seed, **settings
            )
    if importlib.util.find_spec("torch"):
        resolved = resolve(configure(preset="paper", mechanism="laplace"))
        assert resolved.clip is not None and resolved.buffer_size is not None
        plain = torch_loop.run(
            Settings(
                mechanism="laplace",
                clip=resolved.clip,
                buffer_size=resolved.buffer_size,
                seed=seed,
                seconds=seconds,
            )
        )
        made["torch_steps_per_s"] = plain.steps / plain.seconds
        for name in ("paper", "default"):
            made[f"ratio_torch_{name}"] = made[name]["steps_per_s"] / made["torch_steps_per_s"]
    return made


def _slow(seconds: float, seed: int) -> dict[str, Any]:
    """Measures an environment whose step takes a millisecond, in processes and in Ray actors."""
    settings: dict[str, Any] = dict(
        world="pgc.bench.slow:Slow", max_steps=200, workers=18, seed=seed
    )
    made: dict[str, Any] = {"processes": [], "ray": []}
    for size in WORKERS:
        with local_crew(size) as crew:
            made["processes"].append({"workers": size, **_host_rate(seconds, crew, **settings)})
        if importlib.util.find_spec("ray"):
            with _ray(size) as cluster:
                made["ray"].append({"workers": size, **_host_rate(seconds, cluster, **settings)})
    for kind, rows in made.items():
        if rows and rows[0]["steps_per_s"]:
            rows[-1]["ratio"] = rows[-1]["steps_per_s"] / rows[0]["steps_per_s"]
            made[kind] = rows
    return made


def _sharded(seconds: float, seed: int) -> dict[str, Any]:
    """Measures the same compiled trials in this process, and as shards on as many Ray actors.

    This process uses every core.
    """
    cores = len(os.sched_getaffinity(0))
    problem = build(configure(submissions=ENDLESS, trials=64 * cores, seed=seed))
    here, there = CompiledSimulation(problem), CompiledSimulation(problem)
    rates = {"here": _rate(seconds, lambda: _count(here, None))}
    with _ray(cores) as cluster:
        rates["ray"] = _rate(seconds, lambda: _count(there, cluster))
    return {
        "trials": 64 * cores,
        **rates,
        "overhead": rates["here"]["steps_per_s"] / rates["ray"]["steps_per_s"] - 1,
    }


def _count(simulation: CompiledSimulation, crew: Crew | None) -> tuple[int, int]:
    played = list(simulation.advance(crew))
    return sum(int(h.steps.sum()) for h in played), sum(len(h.n) for h in played)


def _host_rate(seconds: float, crew: Crew, **settings: Any) -> dict[str, Any]:
    simulation = HostSimulation(build(configure(submissions=ENDLESS // 10, **settings)))

    def advance() -> tuple[int, int]:
        [happened] = simulation.advance(crew)
        return int(happened.steps.sum()), len(happened.n)

    return _rate(seconds, advance)


def _rate(seconds: float, advance: Callable[[], tuple[int, int]]) -> dict[str, Any]:
    """Returns steps and reports per second, measured after a first round that compiles."""
    began = time.perf_counter()
    advance()
    first = time.perf_counter() - began
    steps = reports = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        more = advance()
        steps, reports = steps + more[0], reports + more[1]
    took = time.perf_counter() - began
    return {"steps_per_s": steps / took, "reports_per_s": reports / took, "first_round_s": first}


def _cpu(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Returns the CPU seconds of one call, the least of `times` calls after a first one."""
    made, best = work(), float("inf")
    for _ in range(times):
        began = time.process_time()
        made = work()
        best = min(best, time.process_time() - began)
    return best, made


def _memory() -> float:
    """Returns the memory that this process holds, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def _ray(size: int) -> Iterator[Crew]:
    from pgc.engines.ray_crew import RayCrew  # needs an optional extra

    with RayCrew(None, size) as crew:
        yield crew


def lines(measured: dict[str, Any]) -> list[str]:
    """Returns the measurements as lines of text for people to read."""
    made = []

    def tell(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                tell(f"{path} {key}".strip(), inner)
        elif isinstance(value, list):
            for row in value:
                made.append(f"{path:<12} {'  '.join(f'{k} {_short(v)}' for k, v in row.items())}")
        else:
            made.append(f"{path:<34} {_short(value)}")

    tell("", measured)
    return made


def _short(value: Any) -> str:
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
