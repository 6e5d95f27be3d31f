"""Errors that a user can cause.

Each carries one line that says what is wrong and what to do; the command line prints it and exits
with 2.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any


class PgcError(Exception):
    """Something the user can mend: a bad value, a missing file, a missing extra."""


class Interrupted(Exception):
    """Asked to stop. What was done is kept; the message says how to continue."""


class BudgetSpent(PgcError):
    """An agent was asked for more than its ε allows. It refuses; nothing is sent."""


def in_one_line(error: BaseException) -> str:
    """Its kind and what it says, without line breaks and not too long."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return words if len(words) <= 160 else words[:157] + "…"


def load(name: str, what: str) -> Any:
    """The thing of one's own that MODULE:NAME names."""
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


def require(module: str, extra: str) -> ModuleType:
    """Import a module that needs an extra, or say the one line that installs what it lacks."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "pgc":
            raise  # our own mistake, not the user's
        raise PgcError(
            f"{error.name} is not installed; mend it with: pip install 'pgc[{extra}]'"
        ) from None
