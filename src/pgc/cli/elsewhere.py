"""Flags of a command that come from the environment, or from a file: for containers and units."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pgc.cli.help import Flag, flags
from pgc.errors import PgcError, did_you_mean

OPTIONS = "--options"


def from_elsewhere(kind: type[Any], verb: str, given: list[str]) -> list[str]:
    """Returns flags to put before those that were given, which are stronger.

    An environment variable PGC_VERB_NAME is stronger than a line `name: value` of the YAML file of
    --options. A flag that takes no value is set by `true`.
    """
    known = {f.name.replace("-", "_"): f for f in flags(kind, None) if f.typed.startswith("--")}
    known.pop(OPTIONS.strip("-"))
    prefix = f"PGC_{verb.upper()}_"
    in_environment = {
        name.removeprefix(prefix).lower(): value
        for name, value in os.environ.items()
        if name.startswith(prefix)
    }
    path = _path(given) or in_environment.pop(OPTIONS.strip("-"), None)
    in_file = {} if path is None else _read(Path(path))
    added: list[str] = []
    for name, value in {**in_file, **in_environment}.items():
        found = known.get(str(name).replace("-", "_"))
        if found is None:
            where = prefix + str(name).upper() if name in in_environment else f"{path}: {name}"
            raise PgcError(f"{where}: there is no such flag{did_you_mean(str(name), [*known])}")
        if not any(word.partition("=")[0].replace("_", "-") == found.typed for word in given):
            added += _words(found, value)
    return added


def _words(flag: Flag, value: Any) -> list[str]:
    if flag.takes:
        return [flag.typed, str(value)]
    if str(value).lower() not in ("true", "false", "1", "0"):
        raise PgcError(f"{flag.typed} is set by true or false, not '{value}'")
    return [flag.typed] if str(value).lower() in ("true", "1") else []


def _path(given: list[str]) -> str | None:
    for at, word in enumerate(given):
        name, is_there, value = word.partition("=")
        if name == OPTIONS:
            return value if is_there else (given[at + 1] if at + 1 < len(given) else None)
    return None


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PgcError(f"cannot read the options in {path} ({error})") from None
    if not isinstance(found, dict):
        raise PgcError(f"{path} has no lines `name: value`")
    return found
