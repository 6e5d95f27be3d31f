"""`pgc slot`: measures how long a device takes to play, and says how long its slots should be."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from pgc.cli.device_fields import Connection
from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.device.slots import PLAY_SHARE
from pgc.errors import PgcError, require

WIDER = 2.0
"""The suggested slot leaves time for a play that takes this many times as long as the longest one
that was measured."""


@dataclass(frozen=True)
class Slot(Connection):
    """Measure how long this device takes to play an offer, and suggest the length of its slots.

    A slot is the time from an offer to its answer: always the same, so that it tells nothing. Run
    this on the slowest device of a fleet, beside what else that device does, and give all of them
    the slot that it prints (pgc join --slot). Nothing is reported and nothing is charged.
    """

    plays: int = 5
    """How many times to play the offer."""
    json: Json = False


def slot(given: list[str]) -> int:
    """Runs `pgc slot` with the given flags."""
    require("httpx", "service")
    from pgc.local_training.players import make_player
    from pgc.wire import Offer

    args = parse(Slot, "slot", given)
    if args.plays < 1:
        raise PgcError("--plays must be at least 1")
    token = args.token()
    world, recipe = args.world_and_recipe(token)
    with args.connect(token) as service:
        received = service.offer()
    if received is None:
        raise PgcError("this token's reports are used up; pgc tokens issue prints another")
    offer, player = Offer.decode(received), make_player(world, world.default_psi, recipe)
    if (reason := player.objection(offer)) is not None:
        raise PgcError(reason)
    player.play(offer, lambda: False)  # what is compiled or allocated once
    seconds = []
    for _ in range(args.plays):
        begun = time.perf_counter()
        player.play(offer, lambda: False)
        seconds.append(time.perf_counter() - begun)
    suggested = suggest(max(seconds))
    if args.json:
        return print_json(
            {"longest_play": max(seconds), "slot": suggested, "recipe": recipe.fingerprint}
        )
    print(f"The longest of {args.plays} plays took {max(seconds):.3g} s.", end=" ")
    print(f"Suggested: --slot {suggested:g}")
    print(f"The service's recipe is {recipe.fingerprint}; --recipe pins it.")
    return 0


def suggest(longest: float) -> float:
    """Returns the slot to suggest, in seconds, if the longest play took `longest` seconds.

    It is at least 1, and rounded up to two significant digits.
    """
    wanted = max(1.0, WIDER * longest / PLAY_SHARE)
    digit = 10.0 ** (math.floor(math.log10(wanted)) - 1)
    return round(math.ceil(wanted / digit) * digit, 6)
