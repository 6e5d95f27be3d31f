"""Errors that a user can cause.

Each carries one line that says what is wrong and what to do; the command line prints it and exits
with 2.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class PgcError(Exception):
    """Something the user can mend: a bad value, a missing file, a missing extra."""


class Interrupted(Exception):
    """Raised when a command is asked to stop. Its work is kept; the message says how to go on."""


class BudgetSpent(PgcError):
    """An agent was asked for more than its ε allows. It refuses; nothing is sent."""


def in_one_line(error: BaseException) -> str:
    """Returns the type and the message of an error as one line of at most 160 characters."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return words if len(words) <= 160 else words[:157] + "…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns " (did you mean …?)" if a known word is much like this one, else nothing."""
    by_end = {name.rpartition(":")[2].lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_end, 1, 0.7)
    return f" (did you mean {by_end[near[0]]}?)" if near else ""


def first_line(error: object) -> str:
    """Returns the first line of what an error says, or its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


PACKAGES = ("gymnasium:", "gymnax:")
"""Prefixes of worlds that a package has, which name no code of one's own."""


def load(name: str, what: str) -> Any:
    """Returns the object that `name` (MODULE:NAME) refers to, from any importable module.

    Modules in the current folder can be imported. Raises `PgcError`, which calls the object `what`,
    if there is no such object or its module cannot be imported.
    """
    module, _, of = name.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        # as `python -m` would: what lies beside the user is importable
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), of)
    except Exception as error:  # whatever a user's module does
        why = in_one_line(error)
        raise PgcError(
            f"cannot load {what} '{name}' ({why}); write MODULE:NAME of a module that is installed "
            "or lies here"
        ) from None


def code_in(values: Mapping[str, Any]) -> list[str]:
    """Returns the names of code (MODULE:NAME) that a config, as plain values, would have run.

    `gymnasium:ID` and `gymnax:ID` name environments of packages that are installed for them; an ID
    that names a module itself (`gymnasium:MODULE:ID`) is code.
    """
    names = [values.get(field) for field in ("mechanism", "world", "policy", "optimizer")]
    return [
        name
        for name in names
        if isinstance(name, str)
        and ":" in name
        and not (name.startswith(PACKAGES) and name.count(":") == 1)
    ]


def refuse_code(values: Mapping[str, Any], where: str | Path, run_code: bool) -> None:
    """Refuses a config that somebody may have sent, if it names code, unless `run_code`."""
    if (found := code_in(values)) and not run_code:
        raise PgcError(
            f"{where} names code of its own ({', '.join(found)}), which would be imported and run "
            "here; if you trust whoever made it, say --run-code (in Python: run_code=True)"
        )


def require(module: str, extra: str) -> ModuleType:
    """Imports a module that needs an optional extra, and returns it.

    If a package is missing, raises `PgcError` with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "pgc":
            raise  # our own mistake, not the user's
        raise PgcError(
            f"{error.name} is not installed; mend it with: pip install 'pgc[{extra}]'"
        ) from None
