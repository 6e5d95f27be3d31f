"""A device in a program of your own: a world, a ledger, a service.

    pgc serve &
    python examples/embed_device.py http://127.0.0.1:8443 $(pgc tokens issue)

The world is anything with Gymnasium's `reset()` and `step(action)`; here it is Gymnasium's CartPole with a gravity of its own.
What leaves the program is what `Device` returns, and nothing else: one ε-locally private report an offer, within ε = 1 for life.
"""

import sys
from pathlib import Path

import gymnasium
from pgc.device import Device, Ledger
from pgc.device.play import NumpyPlayer
from pgc.device.recipe import Recipe

from pgc.service.client import ServiceClient, run_device

CARTPOLE = {
    "bounds": ((-2.4, 2.4), (-3, 3), (-0.21, 0.21), (-3, 3)),
    "actions": 2,
    "max_steps": 200,
    "score_threshold": 195.0,
}


def main(url: str, token: str, ledger: str = "ledger.db", ca: str | None = None) -> str:
    home = gymnasium.make("CartPole-v1").unwrapped
    home.gravity = 9.7
    account = Ledger.open(ledger) if Path(ledger).exists() else Ledger.create(ledger, epsilon=1.0)
    with ServiceClient(url, token, ca=ca) as service:
        recipe = Recipe.read(service.card()["recipe"], **CARTPOLE)
        device = Device(account, player=NumpyPlayer(home, recipe), clock=service.clock)
        accepted, why = run_device(service, device)
    return f"{accepted} report(s) accepted; {why}"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
