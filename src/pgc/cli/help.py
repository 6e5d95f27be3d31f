"""What `--help` prints: a command's flags with the one text that explains each, from the docstrings
of its dataclass.

It needs none of the packages that a command needs, so it is there at once. Of a command with many
flags, `--help` shows those that are used most, and `--help-all` every one in groups.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from tyro.conf import Positional

WIDEST = 100
INDENT = 6
WORDS = """\
ε is how much all that one agent ever sends may reveal; ψ is what is private about its world. μ is
the average of ten scores, and Θ the one from which it is a success. All words: docs/glossary.md"""
ASKS, ASKS_ALL = ("-h", "--help"), "--help-all"


@dataclass(frozen=True)
class Flag:
    """One flag of a command, as it is typed and explained."""

    name: str
    """The field of the command's dataclass."""
    typed: str
    """How it is typed: --buffer-size; --no-normalize for what is on by default; RUN for a
    positional argument."""
    takes: str
    """What follows it, such as NUMBER; empty for a switch."""
    text: str
    default: str
    """Its default as it would be typed; empty where the text says what happens."""


def print_help(
    kind: type[Any],
    verb: str,
    listed: Sequence[Flag],
    *,
    everything: bool,
    first: Sequence[str] = (),
    sections: Mapping[str, str] | None = None,
) -> None:
    """Prints the help of a command whose flags are `listed`.

    `first` names the fields that are used most; `sections` gives the title of each group of fields,
    by the first field in it. Without `first`, all flags are shown at once.
    """
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 40)).columns)
    positional = [flag for flag in listed if not flag.typed.startswith("-")]
    usage = " ".join([f"usage: pgc {verb}", *(flag.typed for flag in positional), "[--flag …]"])
    print(f"{usage}\n\n{_wrapped(inspect.cleandoc(kind.__doc__ or ''), width, 0)}\n")
    if positional:
        _print("Arguments", positional, width)
    listed = [flag for flag in listed if flag not in positional]
    if first and not everything:
        by_name = {flag.name: flag for flag in listed}
        _print("The flags that are used most", [by_name[name] for name in first], width)
        print(f"{len(listed) - len(first)} more flags, in groups:  pgc {verb} {ASKS_ALL}")
        print(_wrapped(WORDS, width, 0))
        return
    for title, some in _grouped(listed, sections or {}).items():
        _print(title, some, width)


def flags(kind: type[Any], default: Any) -> list[Flag]:
    """Returns the flags of a command, in the order of its fields."""
    hints, texts = typing.get_type_hints(kind, include_extras=True), field_texts(kind)
    listed = []
    for f in fields(kind):
        hint, value = hints[f.name], _default(f, default)
        shown = _shown(value)
        text, marks = texts.get(f.name, ""), [hint]
        while get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            marks += extras
        for mark in marks:
            text = getattr(mark, "help", None) or text
        dashed = f.name.replace("_", "-")
        if any(mark in get_args(Positional[int])[1:] for mark in marks):
            listed.append(Flag(f.name, f.name.upper(), _takes(hint), text, shown))
        elif hint is bool:
            listed.append(Flag(f.name, f"--{'no-' if value is True else ''}{dashed}", "", text, ""))
        else:
            listed.append(Flag(f.name, f"--{dashed}", _takes(hint), text, shown))
    return listed


def field_texts(kind: type[Any]) -> dict[str, str]:
    """Returns the text under each field of a dataclass and of the classes that it extends."""
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, after in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[statement.target.id] = " ".join(str(after.value.value).split())
    return found


def _grouped(listed: Sequence[Flag], sections: Mapping[str, str]) -> dict[str, list[Flag]]:
    """Returns the flags by the title of their group; those before the first group are `Flags`."""
    groups: dict[str, list[Flag]] = {}
    title = "Flags"
    for flag in listed:
        title = sections.get(flag.name, title)
        groups.setdefault(title, []).append(flag)
    return groups


def _print(title: str, some: Sequence[Flag], width: int) -> None:
    print(title)
    for flag in some:
        takes = flag.takes if flag.typed.startswith("-") else ""
        print(f"  {flag.typed} {takes}".rstrip())
        default = f" (default: {flag.default})" if flag.default else ""
        print(_wrapped(flag.text + default, width, INDENT))
    print()


def _wrapped(text: str, width: int, indent: int) -> str:
    """Returns the paragraphs of a text, filled up to a width."""
    space = " " * indent
    return "\n\n".join(
        textwrap.fill(
            " ".join(part.split()), width, initial_indent=space, subsequent_indent=space,
            break_on_hyphens=False,
        )
        for part in text.split("\n\n")
    )  # fmt: skip


def _default(f: Any, default: Any) -> Any:
    if default is not None:
        return getattr(default, f.name)
    return None if f.default is MISSING else f.default


def _shown(value: Any) -> str:
    """Returns a default as it would be typed; empty where the text says what happens."""
    if value is None or isinstance(value, bool) or value in ("", ()):
        return ""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _takes(hint: Any) -> str:
    """Returns what follows a flag of this type."""
    if get_origin(hint) is Literal:
        return "{" + "|".join(map(str, get_args(hint))) + "}"
    if get_origin(hint) in (typing.Union, types.UnionType):
        return _takes(next(one for one in get_args(hint) if one is not type(None)))
    if get_origin(hint) is tuple:
        return f"{_takes(get_args(hint)[0])} …"
    return {int: "INTEGER", float: "NUMBER", Path: "PATH"}.get(hint, "TEXT")
