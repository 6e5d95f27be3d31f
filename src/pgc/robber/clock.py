"""(f) The clock: two homes are told apart by when their devices answer."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from pgc.config import configure
from pgc.config.problem import Problem, build
from pgc.device.device import Device
from pgc.local_training.players import make_player
from pgc.local_training.worlds.cartpole import CartPolePsi
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game
from pgc.runs.train import train
from pgc.wire import Offer, Query

SLOT = 0.6
"""Seconds. A real device has longer ones (`pgc slot`)."""
EPISODES = 20
HOMES = (CartPolePsi(gravity=1.0), CartPolePsi(gravity=60.0))


def attack(effort: Effort) -> Attack:
    """Asks real devices in two homes, and reads the clock."""
    problem = build(configure(epsilon=1.0, local_episodes=EPISODES))
    offer = _offer(problem, _good_policy(effort.seed))
    games = []
    for arm, slot, count, breaks in (
        ("no slots", 0.0, effort.of(80, 30), True),
        ("slots", SLOT, effort.of(24, 6), False),
    ):
        times = _times(problem, offer, slot, count)
        half = count // 2
        usual = np.median(times[:, :half], axis=1)
        late = int(usual[1] > usual[0])
        guesses = times[:, half:] > usual.mean()
        right = guesses == (np.arange(2) == late)[:, None]
        games.append(
            Game.counted(right, arm=arm, epsilon=1.0, bounded=False, breaks=breaks, at=slot)
        )
    return Attack(
        name="clock",
        title="The clock",
        adversary="It measures how long a device takes to answer, and has asked both homes before.",
        secret="Whether a device lives at a gravity of 1 or of 60, where poles fall sooner.",
        works="Episodes that end early are over early. The robber says which home it is by "
        "whether an answer came before or after the middle of the two usual times. These times "
        "were measured, on devices as docs/devices.md sets them up: they differ from run to run.",
        limit="None that ε gives: noise in a report does not hide when it was sent. A slot does: "
        "every answer leaves a fixed time after the offer. (A device of pgc plays every episode to "
        "its last step as well, unless it is told not to; these devices were told.)",
        games=tuple(games),
        axis="slot of the device, in seconds (0: no slots)",
    )


def _good_policy(seed: int) -> np.ndarray:
    """Returns a policy that holds a pole up at the usual gravity: one of the robber's own."""
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            epsilon=math.inf, submissions=100, seed=seed, eval_episodes=1,
            out=Path(folder) / "run", progress=None,
        )  # fmt: skip
        return np.asarray(run.policies()["averaged"][0])


def _offer(problem: Problem, theta: np.ndarray) -> Offer:
    state = problem.start(jnp.asarray(theta))
    policy, basis = problem.deliverer.deliver(state)
    return Offer(
        offer_id=1,
        policy_version=0,
        query=Query.of(problem.randomiser.mechanism),
        episodes=EPISODES,
        theta=np.asarray(policy, np.float32),
        basis=None if basis is None else np.asarray(basis, np.float32),
    )


def _times(problem: Problem, offer: Offer, slot: float, count: int) -> np.ndarray:
    """Returns how long devices in both homes took to answer an offer, in seconds, (2, count).

    The homes take turns, so that what else the machine does falls on both alike.
    """
    training = problem.training
    players = [
        make_player(training.world, psi, training.recipe, fixed_steps=False) for psi in HOMES
    ]
    taken = np.zeros((2, count))
    with tempfile.TemporaryDirectory() as folder:
        for home, number in ((home, number) for number in range(count) for home in (0, 1)):
            path = Path(folder) / f"{home}-{number}.db"
            device = Device.create(path, 1.0, player=players[home], slot_seconds=slot)
            asked = time.perf_counter()
            device.answer(offer)
            taken[home, number] = time.perf_counter() - asked
    return taken
