"""(d) Retries: an aggregator that asks the same device again and again averages the noise away."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from pgc.device.device import Device
from pgc.privacy.audit.events import strongest
from pgc.randomise.mechanisms.forms import Event
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.report import draw_report
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game
from pgc.wire import Offer, Query, Report

EPSILON, DIM = 1.0, 4
TIMES = (1, 4, 16, 64)


def attack(effort: Effort) -> Attack:
    """Asks real devices with real ledgers, and a client that draws anew each time."""
    mechanism = Query.of(make_mechanism("duchi", dim=DIM, epsilon=EPSILON, clip=1.0)).mechanism
    event = strongest(mechanism)
    assert event is not None
    offer = Offer(
        offer_id=event.number,
        policy_version=0,
        query=Query.of(mechanism),
        theta=np.zeros(DIM, np.float32),
    )
    count, rng = effort.of(300, 100), np.random.default_rng(effort.seed)
    secret = rng.random(count) < 0.5
    kept, fresh = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            gradient = event.one if secret[number] else event.other
            device = Device.create(Path(folder) / f"{number}.db", EPSILON)
            kept.append(
                [_happened(event, offer, device.release(offer, gradient)) for _ in range(TIMES[-1])]
            )
            fresh.append(
                [
                    _happened(event, offer, draw_report(offer, gradient, None))
                    for _ in range(TIMES[-1])
                ]
            )
    usual = event.likely * (1 + np.exp(-EPSILON)) / 2
    games = []
    for arm, seen, breaks in (
        ("pgc's device: what was stored is sent again", kept, False),
        ("a client that draws anew", fresh, True),
    ):
        for times in TIMES:
            guesses = np.array(seen)[:, :times].mean(axis=1) > usual
            protected = not breaks or times == 1  # asked once, both are alike
            games.append(
                Game.counted(
                    guesses == secret, arm=arm, epsilon=EPSILON, breaks=not protected, at=times
                )
            )
    return Attack(
        name="retries",
        title="Asking again",
        adversary="It sends the same offer to a device up to 64 times, as after a lost connection.",
        secret="Which of two gradients the device has.",
        works="It counts how often the telling outputs came (the worst pair's). Fresh noise "
        "averages out: after 64 answers of a careless client the secret is plain. A device of pgc "
        "stores its report before it sends it, and sends the same bytes again; its ledger is "
        "charged once.",
        limit="e^ε/(e^ε + 1) at ε = 1, however often it asks.",
        games=tuple(games),
        axis="how often the device was asked (ε = 1)",
    )


def _happened(event: Event, offer: Offer, sent: object) -> bool:
    """Returns whether a report that was sent is in the event."""
    assert isinstance(sent, bytes), sent
    code = np.atleast_1d(np.asarray(Report.decode(sent, offer).code)).reshape(1, -1)
    return bool(event.happened(code)[0])
