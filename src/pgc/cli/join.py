"""`pgc join`: runs a device, or many simulated ones, against a service."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pgc.cli.device_fields import Connection, read_tokens
from pgc.cli.fields import Json, OwnMechanism
from pgc.cli.parsing import parse, print_json
from pgc.device.slots import DEFAULT_SLOT
from pgc.errors import Interrupted, PgcError, require
from pgc.randomise.budget import NANO


@dataclass(frozen=True)
class Join(Connection):
    """Run a device that takes part in a service: charge the ledger, play the policy in the device's
    world, randomise the gradient, and report.

    First give the device its ledger, once, with pgc provision. If pgc join is killed, run the same
    command again: it continues, and nothing is charged or counted twice. With --tokens it runs many
    simulated devices instead. These have no slots, because nobody's data can leak through timing.
    """

    ledger: Path | None = None
    """This device's ledger, by default ledger.db; for simulated devices the folder of their
    ledgers, by default ledgers."""
    device_id: str | None = None
    """The name under which this device was provisioned. With it, another device's ledger is
    refused."""
    slot: float = DEFAULT_SLOT
    """Seconds from an offer to its answer, always the same: longer than the slowest device plays.
    pgc slot measures it. Play that has not finished in time is given up, and a report that says
    nothing is sent."""
    leak_timing: bool = False
    """Answer as soon as play has ended. Whoever sees when a report arrives then learns about this
    device's world: two very different homes were told apart in 96 of 100 cases at ε = 0.01
    (docs/threat-model.md). The ledger records it."""
    tokens: Path | None = None
    """A file with one token a line, for several simulated devices: pgc tokens issue --count K >
    FILE."""
    devices: int | None = None
    """How many simulated devices to run; by default one for each token."""
    new_ledger: bool = False
    """Make the ledgers of simulated devices that have none, each with --limit."""
    limit: float | None = None
    """ε, the lifetime limit of the new ledgers of simulated devices."""
    population: tuple[str, ...] | None = None
    """How the worlds of simulated devices differ, as in pgc train: FIELD=v1,v2,… or FIELD=low:high;
    by default the world's own."""
    seed: int | None = None
    """Seed of the devices' worlds ψ; by default at random."""
    at_once: int = 8
    """How many simulated devices run at the same time."""
    mechanism: OwnMechanism = None
    json: Json = False


def join(given: list[str]) -> int:
    """Runs `pgc join` with the given flags; returns 2 if a device failed, 1 if none did and yet no
    report was accepted.
    """
    require("httpx", "service")
    import numpy as np

    from pgc.device.device import RELEASABLE
    from pgc.local_training.worlds.population import Population
    from pgc.randomise.mechanisms.registry import find_mechanism
    from pgc.service.fleet import Fleet

    args = parse(Join, "join", given)
    accepts = RELEASABLE
    if args.mechanism is not None:
        accepts = (*RELEASABLE, find_mechanism(args.mechanism).name)
    admitted, ledgers = _admitted(args)
    world, recipe = args.world_and_recipe(admitted[0])
    varied = world.default_population if args.population is None else args.population
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

    simulated = args.tokens is not None
    fleet = Fleet(
        connect=args.connect,
        tokens=admitted,
        ledgers=ledgers,
        limit=args.limit if args.new_ledger else None,
        device_id=args.device_id,
        slot=0.0 if simulated or args.leak_timing else args.slot,
        simulated=simulated,
        world=world,
        population=Population.parse(world, varied),
        recipe=recipe,
        accepts=accepts,
        seed=int(np.random.default_rng().integers(2**31)) if args.seed is None else args.seed,
        say=say,
    )
    try:
        joined = fleet.run(args.at_once)
    except KeyboardInterrupt:
        raise Interrupted("stopped; the same command goes on") from None
    why = [{"devices": n, "why": words} for words, n in joined.ended.most_common()]
    result = {"accepted": joined.accepted, "ended": why, "epsilon_left": joined.left / NANO}
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
    return 2 if joined.failed else int(joined.accepted == 0)


def _admitted(args: Join) -> tuple[list[str], list[Path]]:
    """Returns the tokens, and the ledgers that go with them."""
    if args.at_once < 1 or (args.devices is not None and args.devices < 1):
        raise PgcError("--devices and --at-once must be at least 1")
    if args.tokens is None:
        if args.devices not in (None, 1):
            raise PgcError(f"{args.devices} devices need as many tokens: give --tokens FILE")
        if args.new_ledger or args.limit is not None:
            raise PgcError(
                "--new-ledger and --limit are for simulated devices (--tokens); a device gets its "
                "ledger once: pgc provision LEDGER --limit ε --device-id ID"
            )
        return [args.token()], [args.ledger or Path("ledger.db")]
    if args.token_file is not None or args.device_id is not None:
        raise PgcError(
            "--token-file and --device-id are for one device, --tokens for simulated ones"
        )
    if args.new_ledger and args.limit is None:
        raise PgcError("new ledgers need a limit: --limit ε")
    found = read_tokens(args.tokens)
    wanted = len(found) if args.devices is None else args.devices
    if not 0 < wanted <= len(found):
        raise PgcError(f"{args.tokens} has {len(found)} token(s); {wanted} are needed")
    folder = args.ledger or Path("ledgers")
    if folder.exists() and not folder.is_dir():
        raise PgcError(
            f"{folder} is no folder; several devices keep their ledgers in one (--ledger)"
        )
    return found[:wanted], [folder / f"{n:06}.db" for n in range(wanted)]
