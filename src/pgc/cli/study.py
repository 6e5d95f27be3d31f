"""What `pgc reproduce` and `pgc frontier` share: they run a study and leave a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from pgc.cli.fields import WHO_PLAYS
from pgc.cli.parsing import parse, print_json, resume_alone
from pgc.errors import require
from pgc.runs.folder import Folder
from pgc.runs.progress import Watch


def study_command(kind: type[Any], verb: str, given: list[str], run: Callable[..., Folder]) -> int:
    """Runs a command that leaves a report, and prints what it means."""
    args = parse(kind, verb, given)
    resume_alone(given, args.resume, "--resume", "--json", "--run-code", *WHO_PLAYS)
    require("jinja2", "report")  # before an hour of work, not after
    with Watch(quiet=args.json) as progress:
        folder = run(
            **{f.name: getattr(args, f.name) for f in fields(args) if f.name != "json"},
            progress=progress,
        )
    if args.json:
        return print_json(folder.summary)
    meaning = folder.summary["meaning"]
    for paragraph in [meaning] if isinstance(meaning, str) else meaning.values():
        print(f"{paragraph}\n")
    print(folder.path / "report.html")
    print(folder.path)
    return 0
