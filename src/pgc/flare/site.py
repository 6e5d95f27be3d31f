"""A site of NVIDIA FLARE that lets nothing out of a task but an ε-LDP report.

The site's owner puts three things into `local/privacy.json`, which no job can change:

    components           `SiteDevice`: the ledger and, for `AnswerOffers`, the site's own world
    task_data_filters    `OfferGate`: notes the offer, and charges for it where a job trains
    task_result_filters  `ReportGate`: lets the report out, and nothing else that was in the result

A job names the executor. `AnswerOffers` plays and answers with the owner's device. Any other
executor trains by itself, and returns a DXO with the number array `gradient` (and `success`).

**Guarantee.** What these filters let out of a task is a report of the owner's `Device`, or a
refusal that depends on nothing private. **Not guaranteed:** FLARE runs a job's code in the process
that runs the filters, applies the job's own filters after them, and has other ways out (cookies,
messages, streamed logs). So the owner must also forbid jobs to bring code, allow no classes but
these, and switch the streaming of logs off. docs/flare.md has the files.
"""

from __future__ import annotations

import importlib
import logging
import threading
from typing import Any

import numpy as np
from nvflare.apis.dxo import from_shareable
from nvflare.apis.executor import Executor
from nvflare.apis.filter import Filter
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from pgc.device.device import Device, Refusal
from pgc.errors import PgcError

OFFER, REPORT, REFUSED = "pgc_offer", "pgc_report", "pgc_refusal"
DEVICE = "pgc_device"
"""The id of the owner's `SiteDevice` in `components`. A job that uses it as well is refused."""


class SiteDevice(FLComponent):
    """The owner's device. Every setting comes from `privacy.json`, and none from a job or a task.

    `ledger` is the path of a ledger that `pgc provision` made; `{site}` in it stands for the site's
    name. `player` names a function of the owner's, as `MODULE:FUNCTION`, that returns the `Player`
    of this site. `settings` are those of `Device`, such as `slot_seconds` and `most_epsilon`.
    """

    def __init__(
        self,
        ledger: str,
        player: str | None = None,
        device_id: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Notes the settings. Nothing is opened yet: the server of a simulation has them too."""
        super().__init__()
        self.ledger, self.player, self.device_id = ledger, player, device_id
        self.settings = settings or {}
        self._device: Device | None = None
        self._answers: dict[bytes, bytes | Refusal] = {}
        self._lock = threading.Lock()

    def device(self, fl_ctx: FLContext) -> Device:
        """Returns the device, which is opened at the first task."""
        with self._lock:
            if self._device is None:
                # FLARE may stream a job's log to the server, and errors of a world are private
                logging.getLogger("pgc").propagate = False
                player = None
                if self.player is not None:
                    module, _, function = self.player.partition(":")
                    player = getattr(importlib.import_module(module), function)()
                path = self.ledger.replace("{site}", fl_ctx.get_identity_name())
                self._device = Device.open(
                    path, device_id=self.device_id, player=player, **self.settings
                )
            return self._device

    def answer(self, offer: bytes, fl_ctx: FLContext) -> bytes | Refusal:
        """Plays and answers. `ReportGate` lets out what is noted here."""
        answer = self._answers[offer] = self.device(fl_ctx).answer(offer)
        return answer

    def answered(self, offer: bytes) -> bytes | Refusal | None:
        """Returns what `answer` returned for this offer, once; None if it was not called."""
        return self._answers.pop(offer, None)


class OfferGate(Filter):
    """For `task_data_filters`: blocks a task without an offer, and passes on the offer alone.

    With `reserve`, the offer is paid for before the job's executor sees it, so that training that
    fails is not free. Leave it out where `AnswerOffers` is the only executor: it pays by itself.
    """

    def __init__(self, reserve: bool = False) -> None:
        """Makes the gate."""
        super().__init__()
        self.reserve = reserve

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Notes the offer for `ReportGate`. What it raises blocks the task before it is run."""
        offer = shareable.get(OFFER)
        if not isinstance(offer, bytes):
            raise PgcError(f"this site answers offers of pgc only; the task has no bytes '{OFFER}'")
        if self.reserve:
            site_device(fl_ctx).device(fl_ctx).reserve(offer)
        fl_ctx.set_prop(OFFER, offer, private=True, sticky=False)
        for key in set(shareable) - {OFFER, "__headers__"}:
            del shareable[key]
        return shareable


class ReportGate(Filter):
    """For `task_result_filters`: replaces a result by the report that answers the task's offer.

    It makes a new `Shareable`: return code, headers, DXO, meta and other fields are dropped.
    """

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Returns the report of what `AnswerOffers` played, or else of the result's gradient."""
        offer, site = fl_ctx.get_prop(OFFER), site_device(fl_ctx)
        if not isinstance(offer, bytes):
            return packed(Refusal("the task had no offer that the site's OfferGate has seen"))
        answer = site.answered(offer)
        if answer is None:
            gradient, success = trained(shareable)
            answer = site.device(fl_ctx).release(offer, gradient, success=success)
        return packed(answer)


class AnswerOffers(Executor):
    """Plays each offer in the site's own world, and answers it with the owner's device."""

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Returns the report or the refusal; a world that raises is answered for by `Device`."""
        return packed(site_device(fl_ctx).answer(shareable[OFFER], fl_ctx))


def site_device(fl_ctx: FLContext) -> SiteDevice:
    """Returns the owner's component. Without one, nothing is answered."""
    found = fl_ctx.get_engine().get_component(DEVICE)
    if not isinstance(found, SiteDevice):
        raise PgcError(f"privacy.json of this site has no component '{DEVICE}'")
    return found


def packed(answer: bytes | Refusal) -> Shareable:
    """Returns a result with the answer in it, and nothing else."""
    made = Shareable()
    if isinstance(answer, Refusal):
        made[REFUSED] = answer.reason
    else:
        made[REPORT] = answer
    return made


def trained(result: Shareable) -> tuple[Any, bool | None]:
    """Returns gradient and success of a job's DXO; of anything else None, which `release` answers
    with a report that says nothing, because a refusal would tell that training failed.
    """
    try:
        data = from_shareable(result).data
        success = data.get("success")
        return np.asarray(data["gradient"], float), None if success is None else bool(success)
    except Exception:  # and nothing is logged: what was raised may be private
        return None, False
