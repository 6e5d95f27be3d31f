"""`pgc account`: what T submissions cost together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError
from pgc.privacy.accounting import composition, shuffling


@dataclass(frozen=True)
class Account:
    """Compute what T submissions of one agent cost together, or the largest ε of each for a total.

    The cost is given by basic composition (which is what a ledger charges), by optimal composition
    at a δ, and by the library dp-accounting. With --shuffled, the ε after amplification by
    shuffling is given as well.
    """

    epsilon: float | None = None
    """ε of all that one agent ever sends, as in pgc train. The largest ε of one gradient is
    computed from it, by basic composition, which is what pgc train and a ledger do, and by
    optimal composition, which holds at --delta only."""
    epsilon_per_submission: float | None = None
    """ε of the gradient in one submission, if --epsilon is not given. What T of them cost together
    is computed from it. By default 1."""
    score_epsilon_per_submission: float = 0.0
    """ε_b of the noisy boolean in one submission. It adds to that of the gradient."""
    submissions_per_agent: int = 1
    """T: how often one agent submits, as in pgc train."""
    delta: float = 1e-6
    """δ of optimal composition and of shuffling. Basic composition needs none."""
    shuffled: int | None = None
    """Also compute the amplification where this many reports are shuffled together."""
    arrival: Literal["asynchronous", "batched"] = "asynchronous"
    """How reports reach the aggregator: one by one, as in PGC, or only in whole batches from a
    shuffler."""
    json: Json = False


def account(given: list[str]) -> int:
    """Runs `pgc account` with the given flags."""
    args = parse(Account, "account", given)
    result = make_account(args)
    if args.json:
        return print_json(result)
    for key, words in ACCOUNT_LINES.items():
        if key in result:
            print(f"{words:<52} {result[key]:,.9g}")
    if "assumptions" in result:
        print("\nThe central ε holds under these assumptions:")
    for line in result.get("assumptions", []):
        print(f"- {line}")
    return 0


ACCOUNT_LINES = {
    "submissions": "submissions of one agent, T",
    "delta": "δ",
    "target": "total that they may cost",
    "largest_epsilon_basic": "largest ε of one gradient, basic composition",
    "largest_epsilon_optimal": "                           optimal composition, at δ",
    "epsilon": "what follows is for this ε of one gradient",
    "score_epsilon": "ε_b of its noisy boolean",
    "total_basic": "T submissions cost, basic composition (δ = 0)",
    "total_optimal": "                   optimal composition, at δ",
    "total_pld": "                   dp-accounting's PLD, at δ",
    "shuffled": "reports shuffled together, n",
    "shuffled_epsilon": "central ε of one of them, at δ",
}


def make_account(args: Account) -> dict[str, Any]:
    """Returns the numbers by name."""
    _refuse(args)
    t, delta = args.submissions_per_agent, args.delta
    score, total = args.score_epsilon_per_submission, args.epsilon
    epsilon = 1.0 if args.epsilon_per_submission is None else args.epsilon_per_submission
    result: dict[str, Any] = {"submissions": t, "delta": delta}
    if total is not None:
        result["target"] = total
        result["largest_epsilon_basic"] = composition.largest_epsilon(total, score, t, 0.0)
        epsilon = composition.largest_epsilon(total, score, t, delta)
        result["largest_epsilon_optimal"] = epsilon
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
    one, total = args.epsilon_per_submission, args.epsilon
    if one is not None and total is not None:
        raise PgcError(
            "give either --epsilon or --epsilon-per-submission: one follows from the other"
        )
    if one is not None and not 0 < one < 700:
        raise PgcError(f"--epsilon-per-submission must be between 0 and 700, not {one:g}")
    if not 0 <= args.score_epsilon_per_submission < 700:
        raise PgcError("--score-epsilon-per-submission must be between 0 and 700")
    if args.submissions_per_agent < 1:
        raise PgcError(
            f"--submissions-per-agent must be at least 1, not {args.submissions_per_agent}"
        )
    if not 0 < args.delta < 1:
        raise PgcError(f"--delta must be between 0 and 1, not {args.delta:g}")
    if total is not None and not 0 < total <= 1000:
        raise PgcError(f"--epsilon must be between 0 and 1000, not {total:g}")
    if args.shuffled is not None and args.arrival != "batched":
        raise PgcError(
            "no amplification by shuffling for asynchronous arrival: the aggregator sees reports "
            "one by one, with their offers and times, so none is hidden among others; if a "
            "shuffler collects whole batches, give --arrival batched"
        )
