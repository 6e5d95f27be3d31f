"""`pgc audit`, `pgc account` and `pgc inspect`: for those who do not want to take our word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError
from pgc.privacy.accounting import composition, shuffling
from pgc.privacy.audit.audit import FAMILY_ERROR
from pgc.privacy.audit.audit import audit as run_audit
from pgc.privacy.inspection import inspect as run_inspect
from pgc.runs.progress import Watch


@dataclass(frozen=True)
class Audit:
    """Try to break a mechanism's claim: a lower bound on ε from samples of what it really sends.

    For each path the exact event of the likelihood-ratio test, and a search for any other event, missing report or odd output
    that tells two gradients apart. A bound above the claim is a FAIL, one below 0.8 ε is weak; anything but a pass exits with 1.
    """

    mechanism: str | None = None
    """Which one: index, duchi, prs, laplace, …, score-bit, or MODULE:CLASS of your own."""
    epsilon: float = 1.0
    """The ε that it is made with."""
    all: bool = False
    """Every mechanism that claims an ε, on every path."""
    path: Literal["simulated", "release"] | None = None
    """Only what simulations draw, or only the bytes that a device would send; by default both, where there are both."""
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
    """Repeat the simulated path's random numbers; by default they are new each time. The release path's never repeat."""
    json: bool = False
    """Print the rows as JSON and nothing else."""


@dataclass(frozen=True)
class Account:
    """What T submissions of one agent cost together, and the largest ε per submission for a total.

    By basic composition (what a ledger charges), by optimal composition at a δ, and by dp-accounting; and, where it applies, what
    shuffling would add.
    """

    epsilon: float = 1.0
    """ε of the gradient in one submission."""
    score_epsilon: float = 0.0
    """ε_b of the noisy boolean in one submission; it adds."""
    submissions: int = 1
    """T: how often one agent submits."""
    delta: float = 1e-6
    """δ, at which optimal composition and shuffling are stated. Basic composition needs none."""
    target: float | None = None
    """Instead of --epsilon: the total that T submissions may cost."""
    shuffled: int | None = None
    """Also: amplification where so many reports are shuffled together."""
    arrival: Literal["asynchronous", "batched"] = "asynchronous"
    """How reports reach the aggregator: one by one, as in PGC, or only in whole batches from a shuffler."""
    json: bool = False
    """Print the result as JSON and nothing else."""


@dataclass(frozen=True)
class Inspect:
    """Say in words what exactly is in an offer, a report, a ledger or a run folder."""

    file: Positional[Path]
    """The file, or a run folder."""
    offer: Path | None = None
    """The offer that a report answers: with it the report is explained fully."""
    json: bool = False
    """Print it as JSON and nothing else."""


def audit(given: list[str]) -> int:
    """`pgc audit`."""
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
        print_json({"rows": [row._asdict() for row in rows], "passed": passed, "family_wise_error": FAMILY_ERROR})
        return 0 if passed else 1
    print(f"{'mechanism':<28} {'path':<10} {'epsilon':>8} {'claim':>8} {'lower_bound':>12} {'samples':>9}  verdict  found by")
    for row in rows:
        print(
            f"{row.mechanism:<28} {row.path:<10} {row.epsilon:>8.4g} {row.claim:>8.4g} {row.lower_bound:>12.4f} "
            f"{row.samples:>9,}  {row.verdict:<7}  {row.found_by}"
        )
    print(f"\n{_meaning(passed)} All bounds hold together with {1 - FAMILY_ERROR:.0%} confidence; samples are per input.")
    return 0 if passed else 1


def _meaning(passed: bool) -> str:
    if passed:
        return "No claim was broken, and each was put to the test (a bound of at least 0.8 ε)."
    return "NOT every row passed: a bound above its claim breaks it; a weak one confirms nothing."


def account(given: list[str]) -> int:
    """`pgc account`."""
    args = parse(Account, "account", given)
    result = make_account(args)
    if args.json:
        return print_json(result)
    for key, words in ACCOUNT_LINES.items():
        if key in result:
            print(f"{words:<52} {result[key]:,.9g}")
    if "assumptions" in result:
        print("\nThe central ε holds only so far as:")
    for line in result.get("assumptions", []):
        print(f"- {line}")
    return 0


ACCOUNT_LINES = {
    "submissions": "submissions of one agent, T",
    "delta": "δ",
    "target": "all of them may cost",
    "largest_epsilon_basic": "so ε of one gradient is at most, basic composition",
    "largest_epsilon_optimal": "                                optimal, at δ",
    "epsilon": "ε of one gradient",
    "score_epsilon": "ε_b of its noisy boolean",
    "total_basic": "T submissions cost, basic composition (δ = 0)",
    "total_optimal": "                   optimal composition, at δ",
    "total_pld": "                   dp-accounting's PLD, at δ",
    "shuffled": "reports shuffled together, n",
    "shuffled_epsilon": "central ε of one of them, at δ",
}


def make_account(args: Account) -> dict[str, Any]:
    """The numbers, each under what it is."""
    _refuse(args)
    t, delta, score = args.submissions, args.delta, args.score_epsilon
    epsilon = args.epsilon
    result: dict[str, Any] = {"submissions": t, "delta": delta}
    if args.target is not None:
        result["target"] = args.target
        result["largest_epsilon_basic"] = composition.largest_epsilon(args.target, score, t, 0.0)
        result["largest_epsilon_optimal"] = composition.largest_epsilon(args.target, score, t, delta)
        epsilon = result["largest_epsilon_optimal"]
    result["epsilon"] = epsilon
    result["score_epsilon"] = score
    result["total_basic"] = composition.basic(epsilon, score, t)
    result["total_optimal"] = composition.optimal(epsilon, score, t, delta)
    result["total_pld"] = composition.pld(epsilon, score, t, delta)
    if args.shuffled is not None:
        result["shuffled"] = args.shuffled
        result["shuffled_epsilon"] = shuffling.shuffled(epsilon + score, args.shuffled, delta)
        result["assumptions"] = list(shuffling.ASSUMPTIONS)
    return result


def _refuse(args: Account) -> None:
    if not (0 < args.epsilon < 700 and 0 <= args.score_epsilon < 700):
        raise PgcError("epsilon must be positive and finite, score-epsilon not negative")
    if args.submissions < 1:
        raise PgcError(f"submissions must be at least 1, not {args.submissions}")
    if not 0 < args.delta < 1:
        raise PgcError(f"delta must be between 0 and 1, not {args.delta:g}")
    if args.target is not None and not 0 < args.target <= 1000:
        raise PgcError(f"target must be between 0 and 1000, not {args.target:g}")
    if args.shuffled is not None and args.arrival != "batched":
        raise PgcError(
            "no amplification by shuffling for asynchronous arrival: reports are seen one by one, with their offers and times, "
            "and hide among nobody; where a shuffler collects whole batches, say --arrival batched"
        )


def inspect(given: list[str]) -> int:
    """`pgc inspect`."""
    args = parse(Inspect, "inspect", given)
    facts = run_inspect(args.file, args.offer)
    if args.json:
        return print_json(facts)
    for name, value in facts.items():
        for line, words in enumerate(value if isinstance(value, list) else [value]):
            print(f"{'' if line else name:<20} {words}")
    return 0
