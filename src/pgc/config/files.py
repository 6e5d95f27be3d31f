"""Writes a config as YAML, and reads it back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import yaml

from pgc.config.config import TrainConfig
from pgc.config.presets import configure
from pgc.errors import PgcError


def to_yaml(config: TrainConfig) -> str:
    """Returns the config as YAML, with its fields in order."""
    plain = {f.name: getattr(config, f.name) for f in fields(config)}
    return yaml.safe_dump(
        {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()},
        sort_keys=False,
        allow_unicode=True,
    )


def from_yaml(text: str) -> TrainConfig:
    """Returns the config that `to_yaml` wrote.

    A field that is missing, because an older pgc did not have it, takes the value of the preset,
    which is what the older pgc used.
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
    settings: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
    }
    return configure(**settings)
