"""How offers, reports and refusals travel: as one `ConfigRecord` in a Flower message.

    aggregator → node    {"pgc": {"offer": bytes}}       of type "train"
    node → aggregator    {"pgc": {"report": bytes}}      or {"pgc": {"refusal": text}}

The bytes are those of docs/wire.md. A reply has nothing else: no metrics, no arrays, no error text.
"""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from pgc.device import Refusal
from pgc.wire import Malformed
from pgc.wire.fields import check
from pgc.wire.offer import LARGEST_OFFER

RECORD, OFFER, REPORT, REFUSAL = "pgc", "offer", "report", "refusal"
LARGEST_REPORT = 2**23
"""No report is longer: one of `laplace` has at most 2²⁰ integers."""
LONGEST_REASON = 500
LATER = Refusal("this node cannot answer now; ask again later")
"""The one refusal that is not final: the collector asks the node again."""


def offer_message(offer: bytes, node: int, seconds: float) -> Message:
    """Returns the message that hands an offer to a node. Flower drops it after so many seconds."""
    content = RecordDict({RECORD: ConfigRecord({OFFER: offer})})
    return Message(content, node, MessageType.TRAIN, ttl=seconds)


def read_offer(message: Message) -> bytes:
    """Returns the offer in a message, or raises `Malformed`.

    Whether the bytes are an offer is for the device to find out.
    """
    check(
        message.metadata.message_type == MessageType.TRAIN,
        f"this node answers offers, and nothing of type {message.metadata.message_type[:50]!r}",
    )
    offer = _record(message).get(OFFER)
    if not isinstance(offer, bytes):
        raise Malformed("the message carries no offer of pgc")
    check(len(offer) <= LARGEST_OFFER, "the offer is too large")
    return offer


def reply(message: Message, answer: bytes | Refusal) -> Message:
    """Returns the message that answers with a report, or with the reason of a refusal."""
    record = ConfigRecord()
    if isinstance(answer, Refusal):
        record[REFUSAL] = answer.reason
    else:
        record[REPORT] = answer
    return Message(RecordDict({RECORD: record}), reply_to=message)


def read_reply(message: Message) -> bytes | Refusal:
    """Returns what a node answered. Raises `Malformed` if it is neither report nor refusal."""
    record = _record(message)
    report, refusal = record.get(REPORT), record.get(REFUSAL)
    if isinstance(refusal, str) and report is None:
        return Refusal("".join(c if c.isprintable() else "?" for c in refusal[:LONGEST_REASON]))
    if isinstance(report, bytes) and refusal is None and len(report) <= LARGEST_REPORT:
        return report
    raise Malformed("the reply is neither a report nor a refusal")


def _record(message: Message) -> ConfigRecord:
    found = message.content.get(RECORD) if message.has_content() else None
    return found if isinstance(found, ConfigRecord) else ConfigRecord()
