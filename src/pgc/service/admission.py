"""Who may have an offer, and which reports count: pure decisions about one group of requests, in
their order.

A token is good for exactly T reports. It holds at most one open offer of a model, which it gets
again whenever it asks, and no more open offers than reports are left to it: so a device is never
charged for a report that would not be counted.

A report counts if its token holds its offer and the offer has not expired, however old its version
is by then (whether the aggregator still uses it is the config's `max_staleness`). Then the offer is
gone, and with it the link between the report and the token. The same report again is acknowledged
again, and counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """What became of a request: the answer that the asker gets."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The same bytes again."""
    UNKNOWN_TOKEN = "unknown token"
    """None such, or revoked."""
    USED_UP = "this token's reports are used up"
    UNKNOWN_OFFER = "unknown offer"
    CONFLICT = "another report answered this offer"
    LATE = "the offer has expired"


class Issued(NamedTuple):
    """An offer that was issued and is still open."""

    offer_id: int
    version: int
    expires_at: int
    model: str
    token: bytes


class Ask(NamedTuple):
    """A token wants an offer; `fresh` is the one that it gets if it holds none."""

    fresh: Issued

    @property
    def token(self) -> bytes:
        """The hash of the token that asks."""
        return self.fresh.token


class Answer(NamedTuple):
    """A token brings a report, whose payload was found to be one that the mechanism can make."""

    token: bytes
    model: str
    offer_id: int
    version: int
    payload: bytes


class Desk:
    """Decides one group of requests, in their order.

    It is told what the store knows of their tokens and offers, decides, and knows what to write.
    """

    def __init__(
        self, now: int, left: dict[bytes, int], opened: Iterable[Issued], answered: Iterable[Answer]
    ) -> None:
        """`left`: reports left to each token that is known and not revoked. `opened`: the open
        offers of these tokens.

        `answered`: what was accepted before under the offers of this group's reports (its token is
        not known, and b"").
        """
        self._now, self._left = now, left
        self._held: dict[bytes, list[Issued]] = {}
        self.issued: list[Issued] = []
        self.accepted: list[Answer] = []
        self.spent: Counter[bytes] = Counter()
        self._answered = {answer.offer_id: answer for answer in answered}
        self._late: set[tuple[bytes, int]] = set()
        for offer in opened:
            if offer.expires_at > now:
                self._held.setdefault(offer.token, []).append(offer)
            else:
                self._late.add((offer.token, offer.offer_id))

    def decide(self, request: Ask | Answer) -> Issued | Verdict:
        """Decides the next request of the group."""
        if request.token not in self._left:
            return Verdict.UNKNOWN_TOKEN
        return self._offer(request.fresh) if isinstance(request, Ask) else self._report(request)

    def _offer(self, fresh: Issued) -> Issued | Verdict:
        held = self._held.setdefault(fresh.token, [])
        for offer in held:
            # a device that asks again, for instance because it was killed, gets the same
            if offer.model == fresh.model:
                return offer
        if len(held) >= self._left[fresh.token]:
            return Verdict.USED_UP
        held.append(fresh)
        self.issued.append(fresh)
        return fresh

    def _report(self, report: Answer) -> Verdict:
        before = self._answered.get(report.offer_id)
        if before is not None:
            return Verdict.DUPLICATE if report._replace(token=b"") == before else Verdict.CONFLICT
        held = self._held.get(report.token, [])
        for offer in held:
            if (offer.offer_id, offer.model, offer.version) == (
                report.offer_id,
                report.model,
                report.version,
            ):
                held.remove(offer)
                self._left[report.token] -= 1
                self.spent[report.token] += 1
                self.accepted.append(report)
                self._answered[report.offer_id] = report._replace(token=b"")
                return Verdict.ACCEPTED
        return (
            Verdict.LATE if (report.token, report.offer_id) in self._late else Verdict.UNKNOWN_OFFER
        )
