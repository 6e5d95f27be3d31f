"""The devices that `pgc join` runs, each with its own ψ, token and ledger.

There is one real device, or there are many simulated ones, which play as fast as they can
(compiled, where the world is) but charge real ledgers and send real reports.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pgc.device import Device, Ledger
from pgc.errors import PgcError
from pgc.local_training import definition
from pgc.local_training.numpy_player import NumpyPlayer
from pgc.local_training.players import JaxPlayer, make_player, make_simulated_player
from pgc.local_training.recipe import Recipe
from pgc.local_training.worlds.base import World
from pgc.local_training.worlds.population import Population
from pgc.numerics.randomness import Address, trial_seed
from pgc.service.client import ServiceClient, run_device


class Joined(NamedTuple):
    """What became of some devices, in numbers."""

    accepted: int
    ended: Counter[str]
    """Why each of them ended."""
    failed: int
    """Number of devices that ended with an error."""
    left: int
    """What their ledgers still have together, in nano-ε."""


@dataclass
class Fleet:
    """Devices that live in one kind of world, each with its own ψ, token and ledger."""

    connect: Callable[[str], ServiceClient]
    """A connection with a token."""
    tokens: Sequence[str]
    ledgers: Sequence[Path]
    limit: float | None
    """ε of new ledgers, for simulated devices that have none; None: a missing one is an error."""
    device_id: str | None
    """The name of a device that was provisioned under one."""
    slot: float
    """Seconds of a device's slots; 0 for none."""
    simulated: bool
    """Whether nobody lives in these homes: they then play as fast as they can."""
    world: World
    population: Population
    recipe: Recipe
    seed: int
    """The seed from which the ψ of each device is drawn."""
    accepts: Sequence[str]
    """Names of the mechanisms that the devices are willing to use."""
    say: Callable[[int, int], None]
    """Told how many devices have ended, and how many reports were accepted."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, at_once: int) -> Joined:
        """Runs all devices, `at_once` of them at a time."""
        ended: Counter[str] = Counter()
        accepted = left = done = failed = 0

        def one(n: int) -> None:
            nonlocal accepted, left, done, failed
            if self._stop.is_set():
                return
            error = None
            try:
                counted, why, remains = self._device(n)
            except (PgcError, OSError) as refused:
                counted, why, remains, error = 0, str(refused), 0, refused
            with self._lock:
                failed += error is not None
                ended[why] += 1
                accepted, left, done = accepted + counted, left + remains, done + 1
                self.say(done, accepted)

        pool = ThreadPoolExecutor(at_once)
        try:
            list(pool.map(one, range(len(self.tokens))))
        finally:
            self._stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
        return Joined(accepted, ended, failed, left)

    def _device(self, n: int) -> tuple[int, str, int]:
        with self.connect(self.tokens[n]) as service:
            player = self._player(n)
            device = Device(
                open_ledger(self.ledgers[n], self.limit, self.device_id),
                player=player,
                accepts=self.accepts,
                slot_seconds=self.slot,
                clock=service.clock,
            )
            accepted, why = run_device(service, device)
        return accepted, why, device.balance.left

    def _player(self, n: int) -> JaxPlayer | NumpyPlayer:
        """Returns the player of a device, in its own ψ."""
        if self.world.on_host:
            psi = self.population.pick(
                np.random.default_rng([self.seed, n]).random(len(self.population.variations))
            )
        else:
            psi = definition.draw_psi(Address(trial_seed(self.seed, 0), n, 0), self.population)
        make = make_simulated_player if self.simulated else make_player
        return make(self.world, psi, self.recipe)


def open_ledger(path: Path, limit: float | None, device_id: str | None) -> Ledger:
    """Returns the ledger that a device has; a new one only for a simulated device, with `limit`."""
    if path.exists() or limit is None:
        return Ledger.open(path, device_id=device_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    return Ledger.create(path, limit)
