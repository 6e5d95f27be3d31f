"""The owner's side: a Flower mod that answers each offer through this node's `Device`.

    def device(context):
        return Device.open("ledger.db", device_id="serial-7", player=player)

    app = ClientApp()

    @app.train(mods=[LocalPrivacy(device, plays=True)])
    def train(message, context): ...              # never called: the device plays by itself

It stands in the place of Flower's `LocalDpMod`, and differs from it in this: the guarantee is pure
ε-LDP between any two gradients, noise is exact and drawn from the operating system's random bits,
what was spent is on the disk before private data is touched, and only the report's bytes leave.

**Guarantee.** That of `Device`, for what this mod returns. It cannot hold for an app that leaves it
out, or that sends private data by itself: the owner installs it (`node.py`), not the aggregator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pgc.device import Device, Refusal
from pgc.device.device import Unanswered
from pgc.errors import PgcError
from pgc.flower.messages import LATER, RECORD, read_offer, reply
from pgc.wire import Malformed, Offer

log = logging.getLogger("pgc.device")
ARRAYS, THETA, SUCCESS = "arrays", "theta", "success"
"""Names of the record and of the array in which an app gets θ, and returns what it made of it."""
CallNext = Callable[[Message, Context], Message]


class LocalPrivacy:
    """A Flower mod: an offer comes in, and a report of this node's device, or a refusal, goes out.

    With `plays`, the device's own player takes step 2, and the app is never called. Otherwise the
    app gets θ as the array "theta" of the record "arrays", as apps for `LocalDpMod` do, and returns
    the array after training. θ minus that array counts as its gradient, for which the device then
    draws a report. If the app fails, a report that says nothing answers; everything else that it
    returns is dropped.
    """

    def __init__(self, device: Callable[[Context], Device], *, plays: bool = False) -> None:
        """Takes a function that returns this node's device.

        It is called for every message, in the thread that answers it, and may open the ledger each
        time. Where one process simulates many nodes, it chooses the ledger by the context.
        """
        self._device, self._plays = device, plays

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Answers a message; it never raises for what is in it, and is never silent."""
        try:
            offer = read_offer(message)
            return reply(message, self._answer(offer, message, context, call_next))
        except Malformed as error:
            return reply(message, Refusal(str(error)))
        except Unanswered:
            log.exception("an answer is paid for, and cannot be stored")
            return reply(message, LATER)
        except PgcError:
            log.exception("this node's ledger cannot be used")
            return reply(message, Refusal("this node's ledger cannot be used"))
        except Exception:  # what the owner's own function raises: its text could be private
            log.exception("this node cannot answer now")
            return reply(message, LATER)

    def _answer(
        self, offer: bytes, message: Message, context: Context, call_next: CallNext
    ) -> bytes | Refusal:
        device = self._device(context)
        if self._plays:
            return device.answer(offer)
        before = device.reserve(offer)
        if before is not None:
            return before
        gradient, success = _trained(Offer.decode(offer), message, context, call_next)
        return device.release(offer, gradient, success=success)


def private_app(device: Callable[[Context], Device]) -> ClientApp:
    """Returns a whole ClientApp whose device plays offers, and which refuses everything else."""
    app, mod = ClientApp(), LocalPrivacy(device, plays=True)
    for register in (app.train, app.evaluate, app.query):
        register(mods=[mod])(_never)
    return app


def _trained(
    offer: Offer, message: Message, context: Context, call_next: CallNext
) -> tuple[Any, bool | None]:
    """Lets the app train θ. Returns a gradient, or None if it did not make one, and its success.

    The offer is paid for, so no outcome may be told from another: also an exception is none.
    """
    try:
        theta = Array(offer.theta.copy())
        message.content = RecordDict({ARRAYS: ArrayRecord({THETA: theta})})
        made = call_next(message, context)
        (arrays,) = made.content.array_records.values()
        (after,) = arrays.to_numpy_ndarrays()
        notes = made.content.get(RECORD)
        said = notes.get(SUCCESS) if isinstance(notes, ConfigRecord) else None
        success = said if isinstance(said, bool) else None
        return offer.theta.astype(float) - np.asarray(after, float).ravel(), success
    except Exception:
        log.exception("the app did not train")
        return None, None


def _never(message: Message, context: Context) -> Message:
    raise AssertionError("an app is not called where the device plays")
