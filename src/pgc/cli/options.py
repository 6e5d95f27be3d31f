"""Flags of a command that come from the environment, or from a file: for containers and units."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pgc.cli.help import Flag, flags
from pgc.errors import PgcError, did_you_mean

OPTIONS = "--options"


def flags_from_options(kind: type[Any], verb: str, given: list[str]) -> list[str]:
    """Returns the flags that are set in the environment and in the file of --options, to be put
    before those of the command line, which override them.

    An environment variable PGC_VERB_NAME overrides a line `name: value` of the YAML file. A flag
    that takes no value is set by `true`.
    """
    known = {f.name.replace("-", "_"): f for f in flags(kind, None) if f.typed.startswith("--")}
    known.pop(OPTIONS.strip("-"))
    prefix = f"PGC_{verb.upper()}_"
    in_environment = {
        name.removeprefix(prefix).lower(): value
        for name, value in os.environ.items()
        if name.startswith(prefix)
    }
    in_variable = in_environment.pop(OPTIONS.strip("-"), None)
    path = _path(given) or in_variable
    read = {} if path is None else _read(Path(path))
    in_file = {str(name).replace("-", "_"): value for name, value in read.items()}
    added: list[str] = []
    for name, value in {**in_file, **in_environment}.items():
        found = known.get(name)
        if found is None:
            where = prefix + name.upper() if name in in_environment else f"{path}: {name}"
            raise PgcError(f"{where}: there is no such flag{did_you_mean(name, [*known])}")
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
