"""Decides who may have an offer and which reports count, without touching the store.

A token is good for exactly T reports. It holds at most one open offer of each model, which it is
given again whenever it asks, and never more open offers than it has reports left. So a device is
never charged for a report that would not be counted.

A report counts if its token holds its offer and the offer has not expired, however old its version
is by then (the config's `max_staleness` decides whether the aggregator still uses it). The offer is
then deleted, and with it the link between the report and the token. A report that is sent again is
acknowledged again, but counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """The decision on a request. Its value is the answer that the device gets."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The same report was accepted before."""
    UNKNOWN_TOKEN = "unknown token"
    REVOKED = "this token was revoked"
    EXPIRED = "this token has expired"
    """It gets no offers any more. An offer that it holds can still be answered."""
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


class OfferRequest(NamedTuple):
    """A request for an offer. `fresh` is the offer to issue if the token holds none."""

    fresh: Issued

    @property
    def token(self) -> bytes:
        """The hash of the token that asks."""
        return self.fresh.token


class ReportRequest(NamedTuple):
    """A report that came with a token. Its payload is known to be one the mechanism can make."""

    token: bytes
    model: str
    offer_id: int
    version: int
    payload: bytes


class Admission:
    """Decides one group of requests, in their order.

    It is given what the store knows of their tokens and offers. Its attributes `issued`, `accepted`
    and `spent` are what has to be written afterwards.
    """

    def __init__(
        self,
        now: int,
        left: dict[bytes, int],
        opened: Iterable[Issued],
        answered: Iterable[ReportRequest],
        *,
        revoked: Collection[bytes] = (),
        expired: Collection[bytes] = (),
    ) -> None:
        """Starts with what the store knows at the time `now`.

        `left` has the number of reports left to each token that is known and not revoked. `opened`
        are the open offers of these tokens. `answered` are reports that were accepted before, for
        the offers that this group answers; their tokens are not known any more, and are b"".
        `revoked` and `expired` are tokens of these kinds.
        """
        self._revoked, self._expired = revoked, expired
        self._now, self._left = now, left
        self._held: dict[bytes, list[Issued]] = {}
        self.issued: list[Issued] = []
        self.accepted: list[ReportRequest] = []
        self.spent: Counter[bytes] = Counter()
        self._answered = {answer.offer_id: answer for answer in answered}
        self._late: set[tuple[bytes, int]] = set()
        for offer in opened:
            if offer.expires_at > now:
                self._held.setdefault(offer.token, []).append(offer)
            else:
                self._late.add((offer.token, offer.offer_id))

    def decide(self, request: OfferRequest | ReportRequest) -> Issued | Verdict:
        """Decides the next request of the group."""
        if request.token not in self._left:
            return Verdict.REVOKED if request.token in self._revoked else Verdict.UNKNOWN_TOKEN
        return (
            self._offer(request.fresh)
            if isinstance(request, OfferRequest)
            else self._report(request)
        )

    def _offer(self, fresh: Issued) -> Issued | Verdict:
        held = self._held.setdefault(fresh.token, [])
        for offer in held:
            # a device that asks again, for instance because it was killed, gets the same offer
            if offer.model == fresh.model:
                return offer
        if len(held) >= self._left[fresh.token]:
            return Verdict.USED_UP
        if fresh.token in self._expired:
            return Verdict.EXPIRED
        held.append(fresh)
        self.issued.append(fresh)
        return fresh

    def _report(self, report: ReportRequest) -> Verdict:
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
