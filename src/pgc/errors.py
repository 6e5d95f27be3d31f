"""Errors that a user can cause.

Each carries one line that says what is wrong and what to do; the command line prints it and exits with 2.
"""

from __future__ import annotations

import importlib
from types import ModuleType


class PgcError(Exception):
    """Something the user can mend: a bad value, a missing file, a missing extra."""


class BudgetSpent(PgcError):
    """An agent was asked for more than its ε allows. It refuses; nothing is sent."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say the one line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PgcError(f"{module} is not installed; mend it with: pip install 'pgc[{extra}]'") from error
