"""How learning goes, from what is public or already protected by ε-LDP: points of a curve that the
process which updates adds to the store.

θ is public, so its score in a simulated world with the usual ψ costs nobody any ε. Where reports
carry the noisy boolean "score ≥ Θ", the share of successes among the last of them is estimated as
well. Nothing else is known here about any device.
"""

from __future__ import annotations

import logging
import threading
import time

import numpy as np

from pgc.config import to_yaml
from pgc.engines import jobs
from pgc.engines.evaluation import greedy_scores
from pgc.errors import first_line
from pgc.service import history, store
from pgc.service.database import Database
from pgc.service.model import Model
from pgc.service.traces import traced
from pgc.service.updater import Updater

log = logging.getLogger("pgc.service")
LOOK_SECONDS = 3.0
RESTS = 10
"""A look is followed by a pause of at least so many times the time that it took."""
EPISODES, HOST_EPISODES, WINDOW = 20, 5, 500


class Scorer:
    """A thread that looks at every model now and then, as long as this process updates."""

    def __init__(self, database: Database, updater: Updater) -> None:
        """Starts the thread."""
        self._database, self._updater = database, updater
        self._stop = threading.Event()
        self._seen: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="pgc-scorer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, after the look that is under way, or without it if that takes long."""
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            begun = time.monotonic()
            for model in list(self._updater.models.values()) if self._updater.leads else ():
                try:
                    self._look(model)
                except Exception as error:  # the other models are looked at all the same
                    log.error("could not score %s: %s", model.name, first_line(error))
            pause = max(LOOK_SECONDS, RESTS * (time.monotonic() - begun))

    def _look(self, model: Model) -> None:
        version = model.published.version
        if self._seen.get(model.name) == version:
            return
        with traced("score", model=model.name, version=version):
            made = look(self._database, model)
        with self._database.writing() as db:
            history.add_point(db, model.name, made)
        self._seen[model.name] = version


def look(database: Database, model: Model) -> history.Point:
    """Returns where a model stands now."""
    training, published, score_bit = model.training, model.published, model.score_bit
    with database.reading() as db:
        received = store.count_accepted(db, model.name)
        payloads = [] if score_bit is None else store.last_payloads(db, model.name, WINDOW)
    score = success = margin = None
    if training is not None and training.world.on_host:
        theta, psi = published.averaged, tuple(training.world.default_psi)
        text = to_yaml(model.config)
        score = float(jobs.scores(text, theta, psi, HOST_EPISODES, 0).mean())
    elif training is not None:
        theta, psis = published.averaged[None], [training.world.default_psi]
        scores = greedy_scores(training, theta, psis, episodes=EPISODES, seed=0)
        score = float(scores[0, 0])
    if score_bit is not None and payloads:
        bits = [model.query.decode_code(payload)[1] for payload in payloads]
        rate = float(score_bit.success_rate(np.array(sum(map(bool, bits))), len(bits)))
        success = min(1.0, max(0.0, rate))
        margin = 2 * float(score_bit.deviation(len(bits)))
    return history.Point(published.version, received, score, success, margin)
