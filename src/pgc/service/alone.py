"""A whole service in one process, without transport: for tests, studies and embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pgc.config import TrainConfig
from pgc.service.creating import create_model
from pgc.service.keeper import Keeper
from pgc.service.lease import Lease
from pgc.service.model import Model
from pgc.service.scoring import Scorer
from pgc.service.updater import Updater


class Alone(Keeper):
    """A front end and the thread that updates, in one process."""

    def __init__(self, url: str | Path, *, run_code: bool = True, **more: Any) -> None:
        """Opens the store; `more` goes to `Keeper`."""
        super().__init__(str(url), run_code=run_code, **more)
        lease = Lease(self.database)
        self.updater = Updater(
            self.database, lease, run_code=run_code, told=lambda: self.follower.wake()
        )
        self.scorer = Scorer(self.database, self.updater)
        self.wake_updater = self.updater.wake
        self.wait_until_applied()

    @property
    def leads(self) -> bool:
        """Whether this process updates θ."""
        return self.updater.leads

    def model(self, name: str) -> Model:
        """Returns the model itself, if this process updates it."""
        return self.updater.models[name]

    def create(self, name: str, config: TrainConfig, theta: np.ndarray | None = None) -> Model:
        """Makes a new model, and returns it."""
        create_model(self.database, name, config, theta)
        self.wait_until_applied()
        return self.model(name)

    def wait_until_applied(self) -> None:
        """Waits until all reports that were acknowledged before this call are applied, and seen."""
        self.updater.wait_until_applied()
        self.follower.wait_for_a_look()

    def close(self) -> None:
        """Finishes what is waiting, and closes the store."""
        self.scorer.close()
        self.updater.close()
        super().close()
