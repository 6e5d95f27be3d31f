"""`pgc pretrain`: trains in a public simulator, before anybody takes part."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from pgc.cli.fields import Json, Out, RunCode
from pgc.cli.parsing import number, parse, print_json, resume_alone
from pgc.runs.pretrain import pretrain as run_pretrain
from pgc.runs.progress import Watch


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Train in a public simulator, at no cost in ε: a policy to start from, and the few directions
    in which good policies differ when homes differ.

    It is for a simulator that holds nobody's data: privacy.json of what follows says that its start
    was public. Searches one policy for the usual world, then one for each of some homes, then one
    for all of them, and says how each of them scores in each home. Ctrl-C keeps every search that
    has ended, for --resume.

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
    directions: int | None = None
    """How many directions to find: the fewer, the less noise, and the less can be learnt. By
    default 4, or as many as gain something where the search itself has few dimensions."""
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
    resume: Path | None = None
    """Continue the pretraining in this folder. Searches that had ended are not made again."""
    processes: int | None = None
    """How many processes play, for a world that plays on the host; by default one for each core."""
    run_code: RunCode = False
    json: Json = False


def pretrain(given: list[str]) -> int:
    """Runs `pgc pretrain` with the given flags."""
    args = parse(Pretrain, "pretrain", given)
    resume_alone(given, args.resume, "--resume", "--json", "--processes", "--run-code")
    settings = {f.name: getattr(args, f.name) for f in fields(Pretrain) if f.name != "json"}
    if args.resume is not None:
        kept = ("resume", "processes", "run_code")
        settings = {name: settings[name] for name in kept}
    with Watch(quiet=args.json) as progress:
        folder = run_pretrain(progress=progress, **settings)
    if args.json:
        return print_json(folder.summary)
    _say(folder.summary)
    print(folder.path)
    return 0


def _say(summary: dict[str, Any]) -> None:
    print(f"{'usual world':<44} {number(summary['usual'], '.6g')}")
    if "homes" not in summary:
        return
    columns = ("usual", "own", "one for all") if summary["robust"] else ("usual", "own")
    print(f"{'score of the policy in the home with':<44}" + "".join(f"{c:>13}" for c in columns))
    for home in summary["homes"]:
        name = ", ".join(f"{k} = {v:.4g}" for k, v in home["psi"].items())
        print(f"{name:<44}" + "".join(f"{home[c]:>13.1f}" for c in columns))
    if summary["directions"]:
        print(f"directions for --subspace learnt: {summary['directions']}")
    else:
        print(
            "no directions: no home's own policy was better there than the usual one, so there is "
            "nothing for a fleet to learn"
        )
