"""`pgc pretrain`: trains in a public simulator, before anybody takes part."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from pgc.cli.fields import Json, Out
from pgc.cli.parsing import number, parse, print_json
from pgc.runs.pretrain import pretrain as run_pretrain
from pgc.runs.progress import Watch


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Train in a public simulator, at no cost in ε: a policy to start from, and the few directions
    in which good policies differ when homes differ.

    Then pgc train --start FOLDER goes on privately, and --subspace learnt makes agents report in
    those directions alone, so that noise has few dimensions however large the network is.
    """

    world: str = "cartpole"
    """The simulator, as in pgc train."""
    vary: tuple[str, ...] = ()
    """How homes may differ: FIELD=v1,v2,… or FIELD=low:high, one or more. Without it there are no
    directions, only a policy for the usual world."""
    population: tuple[str, ...] | None = None
    """The usual world, if it is not one ψ: FIELD=v1,v2,… or FIELD=low:high."""
    directions: int = 4
    """How many directions to find."""
    worlds: int = 8
    """In how many homes, spread evenly over --vary, a policy is trained to find them."""
    skip_robust: bool = False
    """Train no policy for all of --vary; the start is then the policy for the usual world."""
    generations: int = 60
    """Generations of each search (CMA-ES, 16 policies in a generation)."""
    episodes: int = 16
    """Episodes of each policy in each generation."""
    start: str | None = None
    """Begin from a policy, as in pgc train, instead of from nothing."""
    max_steps: int | None = None
    """As in pgc train."""
    threshold: float | None = None
    """As in pgc train."""
    bounds: tuple[str, ...] | None = None
    """As in pgc train."""
    subspace: Literal["linear", "quadratic"] | None = None
    """Whether policies are searched among linear or quadratic functions of the observation; by
    default as in pgc train."""
    hidden: tuple[int, ...] | None = None
    """As in pgc train."""
    policy: str | None = None
    """As in pgc train."""
    seed: int = 0
    """The seed of all randomness."""
    out: Out = None
    processes: int | None = None
    """How many processes play, for a world that plays on the host; by default one for each core."""
    json: Json = False


def pretrain(given: list[str]) -> int:
    """Runs `pgc pretrain` with the given flags."""
    args = parse(Pretrain, "pretrain", given)
    settings = {f.name: getattr(args, f.name) for f in fields(Pretrain) if f.name != "json"}
    with Watch(quiet=args.json) as progress:
        folder = run_pretrain(progress=progress, **settings)
    if args.json:
        return print_json(folder.summary)
    _say(folder.summary)
    print(folder.path)
    return 0


def _say(summary: dict[str, Any]) -> None:
    print(f"{'usual world':<44} {number(summary['usual'], '.6g')}")
    if "worlds" not in summary:
        return
    robust = summary.get("robust", [])
    print(f"{'home':<44} usual policy   its own" + "   one for all" * bool(robust))
    for i, home in enumerate(summary["worlds"]):
        name = ", ".join(f"{k} = {v:.4g}" for k, v in home["psi"].items())
        last = f"{robust[i]:14.1f}" if robust else ""
        print(f"{name:<44} {home['usual']:12.1f} {home['own']:9.1f}{last}")
