"""Writes a config as YAML, and reads it back."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import yaml

from pgc.config.config import TrainConfig
from pgc.config.presets import configure
from pgc.errors import PgcError

BEFORE: dict[str, Any] = {
    "step_decay": math.inf,
    "report_norm": math.inf,
    "constant": False,
    "activation": "relu",
    "public_steps": 40_000,
    "scales": "limits",
    "public": False,
    "start": None,
    "start_origin": None,
    "learnt_directions": None,
}
"""Fields that older versions of pgc did not have, each with the value that acts as those versions
did. A config without the field gets this value."""
SINCE = BEFORE.keys() - {"report_norm"}
"""The fields that configs did not have when the hashes in checkpoints were first made."""


def to_yaml(config: TrainConfig, *, as_before: bool = False) -> str:
    """Returns the config as YAML, with its fields in order.

    With `as_before`, a newer field is left out if it has the value that older versions implied
    (`BEFORE`), so that such a config has the same text, and the same hash, as in those versions.
    """
    plain = {f.name: getattr(config, f.name) for f in fields(config)}
    if as_before:
        plain = {k: v for k, v in plain.items() if k not in SINCE or v != BEFORE[k]}
    return yaml.safe_dump(
        {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()},
        sort_keys=False,
        allow_unicode=True,
    )


def from_yaml(text: str) -> TrainConfig:
    """Returns the config that `to_yaml` wrote.

    A field that is missing, because an older pgc did not have it, takes the value that the older
    pgc used: that of the preset, or the one in `BEFORE`.
    """
    values: Any
    try:
        values = yaml.safe_load(text)
        known = {f.name for f in fields(TrainConfig)}
        if (
            not isinstance(values, dict)
            or not isinstance(values.get("preset"), str)
            or not set(values) <= known
        ):
            raise ValueError("its fields are not those of a pgc run")
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise PgcError(
            f"config.yaml cannot be read ({reason}); was it made by another version of pgc?"
        ) from None
    values = BEFORE | values
    settings: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
    }
    return configure(**settings)
