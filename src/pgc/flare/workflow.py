"""Steps 1 and 4 as a workflow of NVIDIA FLARE's server: it offers θ to the sites, and applies each
report when it comes.
"""

from __future__ import annotations

import json
import queue
import secrets
import time
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from pgc.flare.site import OFFER, REFUSED, REPORT
from pgc.wire import Malformed, Offer, Report


class OfferWorkflow(Controller):
    """Every site has one offer at a time. A report counts with the version that it was made for.

    `settings` are those of `pgc.configure`. `results` is the file into which θ and the averaged
    policy are written, as a run's policy.safetensors. The workflow ends after `reports` reports, or
    when all sites refuse. A site that has not answered after `patience` seconds is asked no more.
    """

    def __init__(
        self, settings: dict[str, Any], reports: int, results: str, patience: int = 3600
    ) -> None:
        """Notes the settings; the aggregator is built when the workflow starts."""
        super().__init__(task_check_period=0.05)
        self.settings, self.reports, self.results = settings, reports, results
        self.patience = patience
        self._received: queue.Queue[tuple[str, Offer, Shareable]] = queue.Queue()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Builds the aggregator. It needs JAX, which sites do not."""
        from pgc.config import configure
        from pgc.service.model import Model

        self._model = Model("flare", configure(**self.settings))

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Sends offers until enough reports are here."""
        sites = {client.name for client in fl_ctx.get_engine().get_clients()}
        taken, idle = 0, sorted(sites)
        while sites and taken < self.reports and not abort_signal.triggered:
            # a site pays for every offer, so no more of them are out than reports are missing
            while idle and len(sites) - len(idle) < self.reports - taken:
                self._offer_to(idle.pop(), fl_ctx)
            try:
                site, offer, result = self._received.get(timeout=0.2)
            except queue.Empty:
                continue
            try:
                report = Report.decode(result.get(REPORT, b""), offer)
            except (Malformed, TypeError) as error:
                self.log_info(fl_ctx, f"{site}: {result.get(REFUSED, error)}")
                sites.discard(site)
                continue
            taken += self._model.accept([report.vector(offer)], [offer.policy_version])
            self._model.published = self._model.as_published(self._model.state)
            idle.append(site)
        self.cancel_all_tasks()
        Path(self.results).write_bytes(self._model.published.policies)
        self.log_info(fl_ctx, json.dumps({"reports": taken, "version": self._model.version}))

    def _offer_to(self, site: str, fl_ctx: FLContext) -> None:
        data = Shareable()
        # drawn, not counted: a ledger outlives a job, and answers no two offers of one number
        number, expires_at = secrets.randbits(64), int(time.time()) + self.patience
        data[OFFER] = self._model.published.template.renumbered(number, expires_at)
        offer = Offer.decode(data[OFFER])

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:
            self._received.put((site, offer, client_task.result))

        def done(task: Task, fl_ctx: FLContext) -> None:
            if task.completion_status != TaskCompletionStatus.OK:
                nothing = Shareable()
                nothing[REFUSED] = f"no answer ({task.completion_status})"
                self._received.put((site, offer, nothing))

        task = Task(
            "pgc", data, timeout=self.patience, result_received_cb=received, task_done_cb=done
        )
        self.send(task, fl_ctx, targets=[site])

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Drops a report that came after the end. It was paid for all the same."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Has nothing to close."""
