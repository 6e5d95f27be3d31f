"""`pgc audit`: try to break a mechanism's claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError
from pgc.privacy.audit.audit import FAMILY_ERROR
from pgc.privacy.audit.audit import audit as run_audit
from pgc.runs.progress import Watch


@dataclass(frozen=True)
class Audit:
    """Try to break a mechanism's claim: a lower bound on ε from samples of what it really sends.

    For each path the exact event of the likelihood-ratio test, and a search for any other event,
    missing report or odd output that tells two gradients apart. A bound above the claim is a FAIL,
    one below 0.8 ε is weak; anything but a pass exits with 1.
    """

    mechanism: str | None = None
    """Which one: index, duchi, prs, laplace, …, score-bit, or MODULE:CLASS of your own."""
    epsilon: float = 1.0
    """The ε that it is made with."""
    all: bool = False
    """Every mechanism that claims an ε, on every path."""
    path: Literal["simulated", "release"] | None = None
    """Only what simulations draw, or only the bytes that a device would send; by default both,
    where there are both."""
    claim: float | None = None
    """Audit against this ε instead of its own: with ε/1.2 every mechanism must fail."""
    dim: int = 8
    """d, the numbers in a gradient. The claims do not depend on it."""
    code_size: int | None = None
    """M of index; by default what suits ε."""
    reduced_dim: int | None = None
    """d̂ of prs, prs-sign and piecewise; by default what suits ε."""
    lift: bool = False
    """With the norm lift."""
    seed: int | None = None
    """Repeat the simulated path's random numbers; by default they are new each time. The release
    path's never repeat."""
    json: Json = False


def audit(given: list[str]) -> int:
    """Run `pgc audit` with the given flags; returns 1 unless every row passes."""
    args = parse(Audit, "audit", given)
    if args.all == (args.mechanism is not None):
        raise PgcError("say which mechanism to audit: --mechanism NAME, or --all")
    with Watch(quiet=args.json) as progress:
        rows = run_audit(
            args.mechanism,
            args.epsilon,
            path=args.path,
            claim=args.claim,
            dim=args.dim,
            code_size=args.code_size,
            reduced_dim=args.reduced_dim,
            lift=args.lift,
            seed=args.seed,
            progress=progress,
        )
    passed = all(row.verdict == "pass" for row in rows)
    if args.json:
        print_json(
            {
                "rows": [row._asdict() for row in rows],
                "passed": passed,
                "family_wise_error": FAMILY_ERROR,
            }
        )
        return 0 if passed else 1
    print(
        f"{'mechanism':<28} {'path':<10} {'epsilon':>8} {'claim':>8} {'lower_bound':>12} "
        f"{'samples':>9}  verdict  found by"
    )
    for row in rows:
        print(
            f"{row.mechanism:<28} {row.path:<10} {row.epsilon:>8.4g} {row.claim:>8.4g} "
            f"{row.lower_bound:>12.4f} "
            f"{row.samples:>9,}  {row.verdict:<7}  {row.found_by}"
        )
    print(
        f"\n{_meaning(passed)} All bounds hold together with {1 - FAMILY_ERROR:.0%} confidence; "
        "samples are per input."
    )
    return 0 if passed else 1


def _meaning(passed: bool) -> str:
    if passed:
        return "No claim was broken, and each was put to the test (a bound of at least 0.8 ε)."
    return "NOT every row passed: a bound above its claim breaks it; a weak one confirms nothing."
