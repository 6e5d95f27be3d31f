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
    """The flags of a command, or one line that says which of them is wrong."""
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
    """What tyro says in a box, without the box and its advice."""
    words = re.sub(r"[─│╭╮╰╯]|-{3,}", " ", box).split()
    return " ".join(words).partition(" For full helptext")[0]


def number(value: float | None, form: str) -> str:
    """A number, or ∞ where there is none."""
    return "∞" if value is None else format(value, form)


def print_json(values: dict[str, Any]) -> int:
    """For programs: nothing else is printed."""
    print(json.dumps(values, ensure_ascii=False))
    return 0


def resume_alone(given: list[str], resume: Path | None, *allowed: str) -> None:
    """Refuse other flags than the allowed ones beside --resume: a run keeps its settings."""
    others = [a for a in given if a.startswith("--") and a.split("=")[0] not in allowed]
    if resume is not None and others:
        raise PgcError(f"--resume takes every setting from the run itself; drop {' '.join(others)}")
