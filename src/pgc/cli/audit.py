"""`pgc audit`: try to break a mechanism's claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError
from pgc.privacy.audit.audit import FAMILY_ERROR, Row
from pgc.privacy.audit.audit import audit as run_audit
from pgc.runs.progress import Watch


@dataclass(frozen=True)
class Audit:
    """Try to break a mechanism's claim: a lower bound on ε from samples of what it really sends.

    On each path it tests the exact event of the likelihood-ratio test, and searches for any other
    event, missing report or odd output that tells two gradients apart. A bound above the claim is a
    FAIL, and one below 0.8 ε is weak. The exit status is 1 unless every bound is a pass.
    """

    mechanism: str | None = None
    """The mechanism: index, duchi, prs, laplace, …, score-bit, or MODULE:CLASS of your own."""
    epsilon: float = 1.0
    """The ε that the mechanism is made with."""
    all: bool = False
    """Audit every mechanism that claims an ε, on every path."""
    path: Literal["simulated", "release"] | None = None
    """Audit only what simulations draw (simulated), or only the bytes that a device would send
    (release); by default both, where the mechanism has both."""
    claim: float | None = None
    """Audit against this ε instead of the one that the mechanism claims. With ε/1.2 every mechanism
    must fail."""
    dim: int = 8
    """d, the dimension of a gradient. The claims do not depend on it."""
    code_size: int | None = None
    """M of index; by default what suits ε."""
    reduced_dim: int | None = None
    """d̂ of prs, prs-sign and piecewise; by default what suits ε."""
    lift: bool = False
    """Audit the mechanism with the norm lift, which reports the norm of a gradient as well."""
    seed: int | None = None
    """The seed of the simulated path; by default it is new each time. The release path draws from
    the operating system, and never repeats."""
    json: Json = False


def audit(given: list[str]) -> int:
    """Runs `pgc audit` with the given flags; returns 1 unless every row passes."""
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
        f"\n{_meaning(rows)} All bounds hold together with {1 - FAMILY_ERROR:.0%} confidence; "
        "samples are per input."
    )
    return 0 if passed else 1


def _meaning(rows: Sequence[Row]) -> str:
    if all(row.verdict == "pass" for row in rows):
        return "No claim was broken, and each was put to the test (a bound of at least 0.8 ε)."
    said = "NOT every row passed: a bound above its claim breaks it; a weak one confirms nothing."
    if any(row.verdict == "weak" for row in rows):
        said += (
            " Where it is weak, the search did not know which inputs the mechanism treats least "
            "alike: give the mechanism a method extremes or event (docs/add-a-mechanism.md)."
        )
    return said
