"""`pgc bench`: throughput beside plain loops, in one run."""

from __future__ import annotations

from dataclasses import dataclass

from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.runs.progress import Watch


@dataclass(frozen=True)
class Bench:
    """Measure, in one run, the compiled engine against plain PyTorch and NumPy loops of the same
    algorithm.
    """

    mechanism: str = "laplace"
    """The mechanism that randomises gradients: laplace or prs, with the paper's settings."""
    trials: int = 180
    """Trials that the engine runs side by side."""
    seconds: float = 15.0
    """How long the engine and each plain loop run."""
    seed: int = 0
    """The seed of the engine and of the plain loops."""
    engine_only: bool = False
    """Do not run the plain loops. (PyTorch's is run only if it is installed.)"""
    scale: bool = False
    """Measure instead how cost grows with trials, agents, dimensions and workers, on the host and
    on Ray if it is installed."""
    json: Json = False


def bench(given: list[str]) -> int:
    """Runs `pgc bench` with the given flags."""
    from pgc.bench import throughput  # imported here, because it needs optional extras

    args = parse(Bench, "bench", given)
    if args.scale:
        from pgc.bench import scaling

        with Watch(quiet=args.json) as progress:
            measured = scaling.scale(args.seconds, args.seed, progress)
        if args.json:
            return print_json(measured)
        print("\n".join(scaling.lines(measured)))
        return 0
    result = throughput.bench(
        args.mechanism, args.trials, args.seconds, args.seed, not args.engine_only
    )
    if args.json:
        return print_json(result)
    for key, value in result.items():
        print(f"{key:<26} {value:,.1f}" if isinstance(value, float) else f"{key:<26} {value}")
    return 0
