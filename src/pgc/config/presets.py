"""The presets that settings start from: `default`, which learns best, and `paper`, as printed."""

from __future__ import annotations

import math
import os
from dataclasses import fields, replace
from typing import Any

import numpy as np

from pgc.config.config import TrainConfig
from pgc.errors import PgcError

DEFAULT_BUFFER = 10
"""|B| of the default preset; the paper's depends on the mechanism (`Mechanism.paper_buffer`)."""
PAPER_LEARNING_RATE = 0.5
"""η of the paper; that of the default preset follows a rule (`rules.py`)."""

PRESETS: dict[str, TrainConfig] = {
    "default": TrainConfig(),
    "paper": TrainConfig(
        preset="paper",
        mechanism="laplace",
        subspace="full",
        constant=False,
        spread=1.0,
        hidden=(16,),
        local_episodes=1,
        discount=0.99,
        estimator="policy-gradient",
        normalize=False,
        initial="glorot",
        baseline="critic",
        output_cap=math.inf,
        step_decay=math.inf,
        report_norm=math.inf,
        action="argmax",
        alpha_start=0.5,
        score=None,  # the training episode's, or a greedy one's with several local episodes
        bootstrap="always",
        standardize="no",
        average_from=0.0,
        submissions=90_000,
        trials=20,
    ),
}


def configure(**settings: Any) -> TrainConfig:
    """Returns the preset that is named (or the default one) with the given settings changed.

    The command line does the same with its flags. A `start` may also be a `Run`, a path,
    or an array with θ_0.
    """
    preset = settings.get("preset", "default")
    if preset not in PRESETS:
        raise PgcError(f"unknown preset '{preset}'; choose one of: {', '.join(PRESETS)}")
    unknown = set(settings) - {f.name for f in fields(TrainConfig)}
    if unknown:
        raise PgcError(
            f"unknown setting(s): {', '.join(sorted(unknown))}; pgc train --help lists them"
        )
    values = {name: _plain(value) for name, value in settings.items()}
    if hasattr(values.get("start"), "__array__"):
        from pgc.config.start import inline  # which needs this module

        values["start"] = inline(np.asarray(values["start"]))
    for name in ("population", "bounds"):
        if isinstance(values.get(name), str):  # one variation, or one range
            values[name] = (values[name],)
    return replace(PRESETS[preset], **values)


def _plain(value: Any) -> Any:
    """Returns a value as a config holds it: a list as a tuple, a class as MODULE:CLASS, and a path
    or a `Run` as text.
    """
    if isinstance(value, type):  # a world or a mechanism of one's own
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return tuple(value) if isinstance(value, list) else value
