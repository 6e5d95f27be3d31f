"""How commands read their flags and print their results."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import tyro
from tyro.conf import FlagCreatePairsOff

from pgc.cli.help import ASKS, ASKS_ALL, Flag, flags, print_help
from pgc.errors import PgcError, did_you_mean

Command = TypeVar("Command")


def parse(
    kind: type[Command],
    verb: str,
    given: list[str],
    default: Command | None = None,
    *,
    first: Sequence[str] = (),
    sections: Mapping[str, str] | None = None,
    hidden: Sequence[str] = (),
) -> Command:
    """Returns a command's flags; raises `PgcError` with one line that says which one is wrong.

    `first` and `sections` order its help (`help.py`); nobody may give the fields in `hidden`.
    """
    known = [flag for flag in flags(kind, default) if flag.name not in hidden]
    if {*ASKS, ASKS_ALL} & set(given):
        print_help(kind, verb, known, everything=ASKS_ALL in given, first=first, sections=sections)
        raise SystemExit(0)
    extra: dict[str, Any] = {} if default is None else {"default": default}
    more = f"pgc {verb} {ASKS_ALL if first else '--help'} lists the flags"
    _refuse_unknown(given, known, more)
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            parsed: Command = tyro.cli(
                kind, prog=f"pgc {verb}", args=given, config=(FlagCreatePairsOff,), **extra
            )
    except SystemExit:
        raise PgcError(f"{_one_line(said.getvalue(), known)}; {more}") from None
    return parsed


def _refuse_unknown(given: list[str], known: list[Flag], more: str) -> None:
    """Raises `PgcError` for the first flag that the command does not have."""
    names = [flag.typed for flag in known if flag.typed.startswith("--")]
    for word in given:
        name = word.partition("=")[0].replace("_", "-")
        if name.startswith("--") and name not in names:
            raise PgcError(f"there is no flag {name}{did_you_mean(name, names)}; {more}")


def _one_line(box: str, known: list[Flag]) -> str:
    """Says in one line what is wrong with a flag's value, or what is missing.

    `box` is what tyro printed about it.
    """
    text = " ".join(re.sub(r"[─│╭╮╰╯]|-{3,}", " ", box).split())
    for flag in known:
        name = flag.typed if flag.typed.startswith("-") else flag.name.upper()
        if f"Error parsing {name}:" in text:
            value = re.search(r"'([^']*)'", text.partition("Error parsing")[2])
            return f"{flag.typed} takes {flag.takes}" + (f", not '{value[1]}'" if value else "")
        if f"Missing value for argument '{name}" in text:
            return f"{flag.typed} needs a value: {flag.takes}"
    if choice := re.search(r"invalid choice '(.*?)' for argument '(.*?)'.*\((.*?)\)", text):
        wrong, name, choices = choice.groups()
        listed = choices.replace("'", "").replace(", None", "")
        return f"{name} takes one of {listed}, not '{wrong}'"
    if "Unrecognized options" in text:
        word = text.split("Unrecognized options: ")[-1].split()[0]
        return f"'{word}' belongs to no flag, and nothing is expected here without one"
    if "Missing" in text or "Required" in text:
        needed = [flag.typed for flag in known if not flag.typed.startswith("-")]
        return f"something is missing: {' '.join(needed)}"
    return text.partition(" For full helptext")[0].partition(" Argument helptext")[0]


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
