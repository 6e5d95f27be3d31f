"""`pgc attack`: robs simulated homes, and leaves a report of what was found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pgc import __version__
from pgc.errors import PgcError
from pgc.robber import clock, dynamics, membership, pictures, plan, policies, retries, worst_pair
from pgc.robber.effort import Effort
from pgc.robber.game import Attack
from pgc.runs.folder import Folder, new_path
from pgc.runs.machine import machine
from pgc.runs.programs import keep_programs
from pgc.runs.progress import Show, shown
from pgc.studies.pages import Files, write_report

TEMPLATE = Path(__file__).parent / "templates" / "attack.html.jinja"


@dataclass(frozen=True)
class Kind:
    """An attack that can be asked for by its name."""

    summary: str
    make: Callable[[Effort], Attack | tuple[Attack, plan.Pictures]]


KINDS: dict[str, Kind] = {
    "plan": Kind("draws the floor plan of a home from what its robot reports", plan.attack),
    **{
        question.name: Kind(
            f"guesses ψ of a home: {question.title.lower()}",
            partial(dynamics.attack, question),
        )
        for question in dynamics.QUESTIONS
    },
    "pair": Kind("the exact likelihood ratio on the worst two gradients", worst_pair.attack),
    "membership": Kind("did this device take part, behind a relay?", membership.attack),
    "retries": Kind("asks the same device again and again", retries.attack),
    "policy": Kind("what a released policy tells", policies.attack),
    "clock": Kind("tells homes apart by when they answer", clock.attack),
}
GROUPS = {"rooms": ("plan", "rooms")}
"""Names that stand for several attacks: a world, for all that rob it."""


def attack(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Show = "auto",
) -> Folder:
    """Makes the attacks of these names, by default all, and returns the folder with the report.

    Its summary.json has every game. `broken` in it is the number of games in which a mechanism let
    the robber know more than its ε allows: 0, or there is a bug.
    """
    chosen = _chosen(names)
    folder = Folder(Path(out) if out is not None else new_path("attack"))
    folder.make(folder.path, "figures")
    keep_programs()
    effort, began = Effort(seed=seed, quick=quick), time.monotonic()
    note = f"seed {seed}"
    note = f"QUICK LOOK: {note}, small samples" if quick else note
    made: list[Attack] = []
    figures: dict[str, Files] = {}
    with folder.locked(), shown(progress) as report:
        for number, name in enumerate(chosen):
            if report:
                report(number, len(chosen), f"{name}: {KINDS[name].summary}")
            done = KINDS[name].make(effort)
            if isinstance(done, tuple):
                done, home = done
                figures["homes"] = pictures.homes(home, note)
            figures[name] = pictures.games(done, note)
            made.append(done)
        if report:
            report(len(chosen), len(chosen), "done")
        summary = {
            "command": _command(names, quick, seed),
            "note": note,
            "quick": quick,
            "seed": seed,
            "attacks": [_row(one) for one in made],
            "broken": sum(len(one.broken) for one in made),
            "meaning": "\n".join(map(_in_words, made)),
            "seconds": time.monotonic() - began,
            "version": __version__,
            "machine": machine(),
        }
        write_report(folder, TEMPLATE, summary, figures, {"inf": math.inf})
    return folder


def _chosen(names: Sequence[str]) -> list[str]:
    chosen: list[str] = []
    for name in names or KINDS:
        several = GROUPS.get(name, (name,))
        if not set(several) <= set(KINDS):
            raise PgcError(f"there is no attack '{name}'; choose from: {', '.join(KINDS)}")
        chosen += [one for one in several if one not in chosen]
    return chosen


def _row(one: Attack) -> dict[str, Any]:
    words = {
        key: getattr(one, key)
        for key in ("name", "title", "adversary", "secret", "works", "limit", "axis")
    }
    games = [game.row() for game in one.games]
    return words | {"games": games, "has_places": any(game.at is not None for game in one.games)}


def _in_words(one: Attack) -> str:
    """Says in a line what the robber found."""
    open_ = [game for game in one.games if game.breaks]
    private = [game for game in one.games if game.ceiling is not None]
    said = []
    if open_:
        best = max(open_, key=lambda game: game.share)
        said.append(f"{best.share:.0%} right from what is not protected ({best.arm})")
    if private:
        low = min(private, key=lambda game: game.epsilon)
        said.append(
            f"{low.share:.0%} at ε = {low.epsilon:g} (a guess: {low.chance:.0%}, at most "
            f"{low.ceiling:.0%})"
        )
    if one.broken:
        said.append(f"{len(one.broken)} ABOVE THE CEILING: a mechanism leaks more than it claims")
    return f"{one.title}: {'; '.join(said) or 'see the report'}"


def _command(names: Sequence[str], quick: bool, seed: int) -> str:
    words = ["pgc attack", *names, "--quick" * quick, f"--seed {seed}"]
    return " ".join(filter(None, words))
