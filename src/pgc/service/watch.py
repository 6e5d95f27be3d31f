"""Watches how learning goes, from what is public or already protected by ε-LDP, and logs it.

θ is public, so its score in a simulated world with the usual ψ costs nobody any ε. Where reports
carry the noisy boolean "score ≥ Θ", the share of successes among the last of them is estimated as
well. Nothing else is known here about any device.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pgc.engines.evaluation import greedy_scores
from pgc.errors import first_line
from pgc.service import store
from pgc.service.admission import Verdict
from pgc.service.logs import OURS
from pgc.service.model import Model

if TYPE_CHECKING:
    from pgc.service.keeper import Keeper

log = logging.getLogger("pgc.service")
LOOK_SECONDS, SAY_SECONDS = 3.0, 15.0
NORMAL = ("issued", "accepted", "duplicate", Verdict.USED_UP.value)
EPISODES, WINDOW, MOST_POINTS = 20, 500, 400


class Point(NamedTuple):
    """Where a model stood at some moment."""

    reports: int
    version: int
    score: float | None
    """Greedy score of the averaged policy in the world with its usual ψ; None if it cannot be
    played here."""
    success: float | None
    """The share of successes among the last devices, estimated from noisy booleans; None if reports
    carry none."""
    margin: float | None
    """Two standard deviations of `success`."""


async def watch(keeper: Keeper) -> None:
    """Looks at every model now and then, and logs what happened, until it is cancelled."""
    said, before = time.monotonic(), Counter(keeper.counts)
    while True:
        try:
            for name, model in list(keeper.models.items()):
                points = keeper.points.setdefault(name, [])
                if not points or points[-1].version != model.published.version:
                    points.append(await asyncio.to_thread(look, keeper, model))
                    if len(points) > MOST_POINTS:
                        del points[1::2]
            if time.monotonic() > said + SAY_SECONDS:
                now = Counter(dict(keeper.counts))
                for line in (
                    lines(keeper, now - before, time.monotonic() - said) if now != before else ()
                ):
                    log.info("%s", line, extra=OURS)
                before, said = now, time.monotonic()
        except Exception as error:
            log.error("could not look at the models: %s", first_line(error))
        await asyncio.sleep(LOOK_SECONDS)


def look(keeper: Keeper, model: Model) -> Point:
    """Returns where a model stands now."""
    training, published, score_bit = model.training, model.published, model.score_bit
    received = keeper.progress(model.name).accepted
    score = success = margin = None
    # what plays on the host would take too long here
    if training is not None and not training.world.on_host:
        theta, psis = published.averaged[None], [training.world.default_psi]
        scores = greedy_scores(training, theta, psis, episodes=EPISODES, seed=0)
        score = float(scores[0, 0])
    if score_bit is not None:
        with keeper.database.reading() as db:
            bits = [
                model.query.decode_code(payload)[1]
                for payload in store.last_payloads(db, model.name, WINDOW)
            ]
        if bits:
            success = min(
                1.0,
                max(0.0, float(score_bit.success_rate(np.array(sum(map(bool, bits))), len(bits)))),
            )
            margin = 2 * float(score_bit.deviation(len(bits)))
    return Point(received, published.version, score, success, margin)


def lines(keeper: Keeper, counts: Counter[tuple[str, str]], seconds: float) -> list[str]:
    """Says what happened: one line for each model, and one for accepted and refused reports."""
    said = []
    for name, model in keeper.models.items():
        received, buffered = keeper.progress(name).accepted, keeper.progress(name).unapplied
        points = keeper.points.get(name)
        known = points and points[-1].score is not None
        score = f", score {points[-1].score:.0f} in the usual world" if points and known else ""
        said.append(
            f"{name}: version {model.published.version}, {received} reports ({buffered} in the "
            f"buffer){score}"
        )
    accepted = counts["reports", "accepted"]
    refused = {
        f"{what} {why}": n for (what, why), n in counts.items() if why not in NORMAL and n > 0
    }
    words = f"{accepted} accepted in {seconds:.0f} s"
    if refused:
        words += "; refused: " + ", ".join(f"{n} {why}" for why, n in sorted(refused.items()))
    return [*said, words]
