"""`pgc join`: a device, or many simulated ones, against a service."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import Json, OwnMechanism
from pgc.cli.parsing import parse, print_json
from pgc.errors import Interrupted, PgcError, require


@dataclass(frozen=True)
class Join:
    """Run a device against a service: play the policy in this device's world, randomise, charge the
    ledger, report.

    Killed at any point it can be started again with the same command: nothing is charged or counted
    twice.
    """

    url: Positional[str]
    """Of the service, for instance https://localhost:8443."""
    limit: float
    """ε: the lifetime limit of a new ledger, whatever the service asks for. A ledger that is there
    keeps its own."""
    token: str | None = None
    """What admits this device (pgc tokens issue prints it)."""
    tokens: Path | None = None
    """A file with one token a line, for several simulated devices: pgc tokens issue --count K >
    FILE."""
    devices: int | None = None
    """How many simulated devices; by default one for each token."""
    world: str = "cartpole"
    """The world that the device lives in: a built-in one, gymnasium:ID, or MODULE:CLASS of a
    Gymnasium environment."""
    max_steps: int | None = None
    """Of an episode in a world of your own, if the service's config has another than the usual; so
    --threshold and --bounds."""
    threshold: float | None = None
    """Θ of a world of your own."""
    bounds: tuple[str, ...] | None = None
    """Public box of the observations of a world of your own: INDEX=low:high."""
    population: tuple[str, ...] | None = None
    """How the worlds of several devices differ, as in pgc train: FIELD=v1,v2,… or FIELD=low:high;
    by default the world's own."""
    ledger: Path | None = None
    """This device's ledger, by default ledger.db; for several devices the folder of their ledgers,
    by default ledgers."""
    new_ledger: bool = False
    """Make the ledger if there is none. Without it, a missing file is an error and not a fresh
    budget."""
    model: str = "default"
    """Which of the service's models."""
    ca: Path | None = None
    """The certificate of the authority to trust, if it is not a public one."""
    seed: int | None = None
    """Of the devices' worlds ψ; by default at random."""
    at_once: int = 8
    """How many of several devices run at the same time."""
    patience: float = 3600.0
    """Seconds to keep trying when the service cannot be reached."""
    mechanism: OwnMechanism = None
    json: Json = False


def join(given: list[str]) -> int:
    """Run `pgc join` with the given flags; returns 2 if a device failed."""
    require("httpx", "service")
    import numpy as np

    from pgc.local_training.worlds.population import Population
    from pgc.local_training.worlds.registry import world_of
    from pgc.randomise.device import EXACT
    from pgc.randomise.mechanisms.registry import find_mechanism
    from pgc.service.client import ServiceClient
    from pgc.service.fleet import Fleet, recipe_for

    args = parse(Join, "join", given)
    accepts = EXACT
    if args.mechanism is not None:
        accepts = (*EXACT, find_mechanism(args.mechanism).name)
    admitted, ledgers = _admitted(args)
    world = world_of(args)
    varied = world.default_population if args.population is None else args.population
    ca = None if args.ca is None else str(args.ca)

    def connect(token: str) -> ServiceClient:
        return ServiceClient(args.url, token, model=args.model, ca=ca, patience=args.patience)

    with connect(admitted[0]) as service:
        card = service.card()
    if card.get("world") != args.world:
        trains = "".join(c for c in str(card.get("world"))[:40] if c.isprintable())
        raise PgcError(
            f"the service trains for {trains}; this device's world is {args.world} (--world)"
        )
    begun = said = time.monotonic()

    def say(done: int, accepted: int) -> None:
        nonlocal said
        if (
            len(admitted) > 1
            and not args.json
            and (time.monotonic() > said + 5 or done == len(admitted))
        ):
            said = time.monotonic()
            rate = accepted / (said - begun)
            print(
                f"{done} of {len(admitted)} devices are done: {accepted} reports accepted, "
                f"{rate:.0f} a second",
                file=sys.stderr,
            )

    fleet = Fleet(
        connect=connect,
        tokens=admitted,
        ledgers=ledgers,
        limit=args.limit,
        new_ledgers=args.new_ledger,
        world=world,
        population=Population.parse(world, varied),
        recipe=recipe_for(world, card.get("recipe")),
        accepts=accepts,
        seed=int(np.random.default_rng().integers(2**31)) if args.seed is None else args.seed,
        say=say,
    )
    try:
        joined = fleet.run(args.at_once)
    except KeyboardInterrupt:
        raise Interrupted("stopped; the same command goes on") from None
    why = [{"devices": n, "why": words} for words, n in joined.ended.most_common()]
    result = {"accepted": joined.accepted, "ended": why, "epsilon_left": joined.left / 1e9}
    if joined.accepted == 0 and len(admitted) == 1 and joined.failed:
        raise PgcError(why[0]["why"])
    if args.json:
        print_json(result)
    else:
        together = "" if len(admitted) == 1 else " in their ledgers together"
        print(
            f"{joined.accepted} report(s) accepted; ε = {result['epsilon_left']:g} is "
            f"left{together}.",
            end=" ",
        )
        print("; ".join(f"{n} device(s): {words}" for words, n in joined.ended.most_common()) + ".")
    return 2 if joined.failed else 0


def _admitted(args: Join) -> tuple[list[str], list[Path]]:
    """The tokens, and the ledgers that go with them."""
    if (args.token is None) == (args.tokens is None):
        raise PgcError("give --token TOKEN, or --tokens FILE for several devices")
    if args.at_once < 1 or (args.devices is not None and args.devices < 1):
        raise PgcError("--devices and --at-once must be at least 1")
    if args.token is not None:
        if args.devices not in (None, 1):
            raise PgcError(f"{args.devices} devices need as many tokens: give --tokens FILE")
        return [args.token], [args.ledger or Path("ledger.db")]
    assert args.tokens is not None
    try:
        found = args.tokens.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise PgcError(f"cannot read tokens in {args.tokens} ({error})") from None
    wanted = len(found) if args.devices is None else args.devices
    if not 0 < wanted <= len(found):
        raise PgcError(f"{args.tokens} has {len(found)} token(s); {wanted} are needed")
    folder = args.ledger or Path("ledgers")
    if folder.exists() and not folder.is_dir():
        raise PgcError(
            f"{folder} is no folder; several devices keep their ledgers in one (--ledger)"
        )
    return found[:wanted], [folder / f"{n:06}.db" for n in range(wanted)]
