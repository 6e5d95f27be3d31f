"""Runs whose every bit is recorded: each mechanism, world and estimator, compiled and on the host, paper and default."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import pgc

COMMON: dict[str, Any] = dict(
    submissions=40,
    trials=2,
    eval_episodes=2,
    workers=3,
    seed=5,
    step_decay=math.inf,
    report_norm=math.inf,
    spread=1.0,
    constant=False,
    hidden=(16,),
    scales="limits",
    discount=0.99,
)
"""These were the defaults when the bits were recorded: a step that does not shrink, reports of any length, one σ and one γ for
all, and observations scaled by the limits of their space."""
RUNS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, its step shrinks": dict(step_decay=None, report_norm=None),
    "laplace, its reports are shortened": dict(
        mechanism="laplace", step_decay=None, report_norm=None, local_episodes=2
    ),
    "default, no privacy, control": dict(epsilon=math.inf, control=True),
    "paper, laplace": dict(preset="paper", mechanism="laplace"),
    "paper, prs": dict(preset="paper", mechanism="prs", epsilon=5.0, buffer_size=5),
    "paper, no privacy": dict(preset="paper", mechanism="none", epsilon=math.inf),
    "closest reading": dict(
        preset="paper",
        mechanism="laplace-coordinatewise",
        reward="end",
        action="sampled",
        bootstrap="zero",
    ),
    "duchi, lifted, policy gradient, noisy boolean": dict(
        mechanism="duchi",
        lift=True,
        estimator="policy-gradient",
        score_epsilon=0.25,
        local_episodes=2,
    ),
    "privunit, the whole gradient": dict(
        mechanism="privunit", subspace="full", estimator="policy-gradient", local_episodes=2
    ),
    "privunitg, random subspace, adam": dict(
        mechanism="privunitg", subspace="random", optimizer="adam", local_episodes=2
    ),
    "piecewise, T = 2": dict(
        mechanism="piecewise", submissions_per_agent=2, epsilon=4.0, local_episodes=2
    ),
    "prs-sign, trimmed": dict(mechanism="prs-sign", epsilon=5.0, trim=0.2, local_episodes=2),
    "acrobot": dict(world="acrobot", submissions=10, local_episodes=2),
    "mountain car": dict(world="mountain-car", submissions=10, local_episodes=2),
    "pendulum": dict(world="pendulum", submissions=10, local_episodes=2),
    "on the host": dict(
        world="gymnasium:CartPole-v1",
        max_steps=200,
        threshold=195.0,
        local_episodes=4,
        bounds=(
            "0=-0.27477047219872475:0.3656567372381687",
            "1=-2.177541270852089:2.389555111527443",
            "2=-0.30611589923501015:0.3151153363287449",
            "3=-3.2951094210147858:3.51983442902565",
        ),  # as random actions showed it
    ),
    "on the host, policy gradient": dict(
        world="gymnasium:Pendulum-v1",
        max_steps=50,
        bounds=("0=-1.0:1.0", "1=-1.0:1.0", "2=-8.0:8.0"),
        estimator="policy-gradient",
        submissions=10,
        local_episodes=2,
    ),
}
"""By name: what differs from `COMMON`."""


def train(name: str, out: Path) -> pgc.Run:
    """Makes one of these runs."""
    settings = {**COMMON, **RUNS[name]}
    on_host = str(settings.get("world", "")).startswith("gymnasium:")
    return pgc.train(out=out, **settings, **({"processes": 1} if on_host else {}))


def bits(run: pgc.Run) -> dict[str, str]:
    """Hashes of all scores, and of both policies."""
    policies = run.policies()
    arrays = {"scores": run.scores(), "theta": policies["theta"], "averaged": policies["averaged"]}
    return {
        name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in arrays.items()
    }
