"""How commands read their flags and print their results."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import tyro
from tyro.conf import FlagCreatePairsOff

from pgc.errors import PgcError

Command = TypeVar("Command")


def parse(
    kind: type[Command], verb: str, given: list[str], default: Command | None = None
) -> Command:
    """Returns a command's flags; raises `PgcError` with one line that says which one is wrong."""
    extra: dict[str, Any] = {} if default is None else {"default": default}
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            parsed: Command = tyro.cli(
                kind, prog=f"pgc {verb}", args=given, config=(FlagCreatePairsOff,), **extra
            )
    except SystemExit as stop:
        if not stop.code:  # --help
            print(said.getvalue(), end="")
            raise
        raise PgcError(f"{_one_line(said.getvalue())}; pgc {verb} --help lists the flags") from None
    return parsed


def _one_line(box: str) -> str:
    """Returns what tyro prints in a box, without the box and the advice at its end."""
    words = re.sub(r"[─│╭╮╰╯]|-{3,}", " ", box).split()
    return " ".join(words).partition(" For full helptext")[0]


def number(value: float | None, form: str) -> str:
    """Writes a number, or ∞ for None."""
    return "∞" if value is None else format(value, form)


def print_json(values: dict[str, Any]) -> int:
    """Prints the values as JSON, for programs, and returns exit status 0."""
    print(json.dumps(values, ensure_ascii=False))
    return 0


def resume_alone(given: list[str], resume: Path | None, *allowed: str) -> None:
    """Refuses flags beside --resume that are not in `allowed`: a run keeps its settings."""
    others = [a for a in given if a.startswith("--") and a.split("=")[0] not in allowed]
    if resume is not None and others:
        raise PgcError(f"--resume takes every setting from the run itself; drop {' '.join(others)}")
