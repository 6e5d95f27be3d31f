"""`pgc doctor`: says what is installed, what is missing, and the line that installs it."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgc import __version__
from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json


@dataclass(frozen=True)
class Doctor:
    """Say which versions and extras are installed, what plays where, what is missing, and the line
    that installs it.
    """

    json: Json = False


def doctor(given: list[str]) -> int:
    """Runs `pgc doctor` with the given flags."""
    args = parse(Doctor, "doctor", given)
    found: dict[str, Any] = {
        "pgc": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_jax(),
        "extras": extras(),
    }
    if args.json:
        return print_json(found)
    for name, value in found.items():
        if name != "extras":
            print(f"{name:<12} {value}")
    print()
    for extra, (have, missing) in found["extras"].items():
        if missing:
            print(f"{extra:<12} missing: {', '.join(missing)}    pip install 'pgc[{extra}]'")
        else:
            print(f"{extra:<12} {', '.join(have)}")
    return 0


def extras() -> dict[str, tuple[list[str], list[str]]]:
    """Returns, for each extra of pgc, what of it is installed (with versions) and what is missing.

    An extra that is made of others lists what it adds to them.
    """
    listed: dict[str, tuple[list[str], list[str]]] = {}
    for extra, name, needed in _requirements("pgc"):
        if extra is None or name == "pgc":
            continue
        have, missing = listed.setdefault(extra, ([], []))
        try:
            version = importlib.metadata.version(name)
            # an extra of another package, such as jax[cuda13], is what it adds to that package
            added = re.search(r"\[(.+?)\]", needed)
            for its, part, _ in _requirements(name) if added else ():
                if added and its == added[1]:
                    importlib.metadata.version(part)
            have.append(f"{name} {version}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(needed)
    return listed


def _requirements(package: str) -> Iterator[tuple[str | None, str, str]]:
    """Yields what a package requires: for which extra, the name, and the requirement as written."""
    for line in importlib.metadata.requires(package) or []:
        needed, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"](.+?)['\"]", marker)
        if name := re.match(r"[\w.-]+", needed.strip()):
            yield extra[1] if extra else None, name[0], needed.strip()


def _jax() -> dict[str, str]:
    """Returns what JAX plays on, and where compiled programs are kept."""
    try:
        import jax

        from pgc.runs.programs import cache_folder
    except ImportError as error:
        return {"devices": f"none: a simulation needs pgc[train] ({error})"}
    size = sum(f.stat().st_size for f in cache_folder().rglob("*") if f.is_file())
    return {
        "devices": ", ".join(f"{d.platform} {d.id} ({d.device_kind})" for d in jax.devices()),
        "programs": f"{cache_folder()} ({size / 1e6:.0f} MB)",
    }
