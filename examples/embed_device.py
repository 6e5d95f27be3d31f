"""A device in a program of your own: a world, a ledger, a service.

    pgc serve &
    pgc provision ledger.db --limit 1 --device-id serial-7          # once, when the device is installed
    PGC_TOKEN=$(pgc tokens issue) python examples/embed_device.py http://127.0.0.1:8443 serial-7

The world is anything with Gymnasium's `reset()` and `step(action)`; here it is Gymnasium's CartPole with a gravity of its own.
What leaves the program is what `Device` returns, and nothing else: one ε-locally private report an offer, each of them as long
after its offer as the slot says, within the ε of the ledger for life.
"""

import os
import sys

import gymnasium
from pgc.device.play import NumpyPlayer
from pgc.device.recipe import Recipe

from pgc.device import Device
from pgc.service.client import ServiceClient, run_device

SLOT = 10.0
"""Seconds from an offer to its report: longer than the slowest device of the fleet plays (`pgc slot` measures it)."""


def main(url, device_id, *, ledger="ledger.db", ca=None, slot=SLOT) -> str:
    home = gymnasium.make("CartPole-v1").unwrapped
    home.gravity = 9.7
    with ServiceClient(url, os.environ["PGC_TOKEN"], ca=ca) as service:
        recipe = Recipe.of_card(service.card())  # an application may pin recipe.fingerprint
        device = Device.open(
            ledger,
            device_id=device_id,
            player=NumpyPlayer(home, recipe),
            slot_seconds=slot,
            clock=service.clock,
        )
        accepted, why = run_device(service, device)
    return f"{accepted} report(s) accepted; {why}"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
