"""`pgc attack`: rob simulated homes, and see what is found."""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from pgc.cli.fields import Json, Out
from pgc.cli.parsing import parse, print_json
from pgc.errors import require
from pgc.runs.progress import Watch


@dataclass(frozen=True)
class Attack:
    """Rob simulated homes of their secrets, with everything that the threat model grants, and see
    what is found with and without noise.

    Attacks: plan (the floor plan from a robot's reports), rooms (plan, and which of four plans),
    cartpole, thermostat (which ψ), pair (the exact likelihood ratio), membership, retries, policy,
    clock. Leaves a folder with report.html (one file, opens offline), figures/ and summary.json,
    and prints its path last. The exit status is 1 if a mechanism let the robber know more than its
    ε allows, which would be a bug.
    """

    names: Positional[tuple[str, ...]] = ()
    """Which attacks to make; by default all."""
    quick: bool = False
    """Take small samples, for a look in about a minute. Every figure says so."""
    seed: int = 0
    """Fixes what is simulated. What real devices draw, and the clock, are new each time."""
    out: Out = None
    json: Json = False


def attack(given: list[str]) -> int:
    """Runs `pgc attack` with the given flags; returns 1 if a ceiling was broken."""
    args = parse(Attack, "attack", given)
    require("jinja2", "report")
    from pgc.robber.attack import attack as run_attack

    with Watch(quiet=args.json) as progress:
        folder = run_attack(
            args.names, quick=args.quick, seed=args.seed, out=args.out, progress=progress
        )
    summary = folder.summary
    if args.json:
        print_json(summary)
    else:
        print(f"{summary['meaning']}\n\n{folder.path / 'report.html'}\n{folder.path}")
    return 1 if summary["broken"] else 0
