"""`pgc inspect`: says what exactly is in an offer, report, ledger, run or store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import Json, OwnMechanism, StoreUrl
from pgc.cli.parsing import parse, print_json
from pgc.privacy.inspection import inspect as run_inspect
from pgc.privacy.inspection import inspect_store
from pgc.randomise.mechanisms.registry import find_mechanism
from pgc.service.private import STORE, from_environment


@dataclass(frozen=True)
class Inspect:
    """Say in words what exactly is in an offer, a report, a ledger, a run folder, or the store of a
    service. It changes nothing.
    """

    file: Positional[Path | None] = None
    """The file, a run folder, or a service's folder; by default the store that $PGC_STORE names, or
    the folder service."""
    store: StoreUrl = None
    offer: Path | None = None
    """The offer that a report answers: with it the report is explained fully."""
    mechanism: OwnMechanism = None
    json: Json = False


def inspect(given: list[str]) -> int:
    """Runs `pgc inspect` with the given flags."""
    args = parse(Inspect, "inspect", given)
    if args.mechanism is not None:
        find_mechanism(args.mechanism)  # loading it registers its wire number
    store = args.store or (from_environment(STORE) if args.file is None else None)
    facts = (
        run_inspect(args.file or Path("service"), args.offer)
        if store is None
        else inspect_store(store)
    )
    if args.json:
        return print_json(facts)
    for name, value in facts.items():
        for line, words in enumerate(value if isinstance(value, list) else [value]):
            print(f"{'' if line else name:<20} {words}")
    return 0
