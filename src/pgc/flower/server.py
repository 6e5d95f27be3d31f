"""The aggregator's side: hands out offers over Flower's `Grid`, and collects reports as they come.

    @app.main()
    def main(grid, context):
        with closing(Alone("service")) as service:       # the store of `pgc serve`
            service.create("default", config)
            collected = Collection(service, "default", reports=100).start(grid)

It is no subclass of Flower's `Strategy`, whose rounds wait for all their nodes: here every node is
asked again as soon as it answered, and θ moves whenever |B| reports are in, as in `pgc serve`.
Which reports count is decided by the same code (`service/admission.py`): an offer is answered once,
by the node that holds it, before it expires. A report is on the disk before it is counted, and
`pgc replay` recomputes θ from what is there.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.serverapp import Grid
from sqlalchemy.exc import DBAPIError

from pgc.device import Refusal
from pgc.errors import first_line
from pgc.flower.messages import LATER, offer_message, read_reply
from pgc.service.admission import Issued, Verdict
from pgc.service.keeper import Keeper
from pgc.service.store import NotKept
from pgc.service.writer import Busy, Unwritten
from pgc.wire import Malformed

log = logging.getLogger("pgc.service")
REFUSED, MALFORMED, UNAVAILABLE = "refused", "malformed", "unavailable"
"""What a reply can be, beside the verdicts on a report."""
FAILURES = Busy, Unwritten, NotKept, DBAPIError
"""How a store that fails for a while shows itself."""
FAILURE_SECONDS = 1.0
"""Seconds until a store that failed is tried again."""
RETRY_SECONDS = 10.0
"""A node that could not be reached, or failed, is not asked again before so many seconds."""


@dataclass
class Collection:
    """Collects reports of one model from all nodes of a run, asynchronously."""

    keeper: Keeper
    """The service: its store, and the thread that updates θ (`pgc.service.alone.Alone`)."""
    model: str
    reports: int
    """How many reports to collect."""
    reports_per_node: int = 1
    """How many reports of one node count. A node may refuse earlier: its own ledger decides."""
    at_once: int = 9
    """How many nodes are asked at a time. The more, the older is the θ that a report is of."""
    patience: float = 3600.0
    """Seconds without a report after which collecting ends."""
    pause: float = 0.2
    """Seconds between two looks for replies."""
    sleep: Callable[[float], None] = time.sleep
    counts: Counter[str] = field(default_factory=Counter)
    """How many replies there were of each kind: "accepted", "refused", "duplicate", …"""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why nodes refused."""
    _tokens: dict[int, str] = field(default_factory=dict)
    _waiting: dict[str, int] = field(default_factory=dict)
    """The nodes that were asked, by the number of the message."""
    _done: set[int] = field(default_factory=set)
    """Nodes that refused, or whose reports are used up: they are not asked again."""
    _rests: dict[int, float] = field(default_factory=dict)

    def start(self, grid: Grid) -> Counter[str]:
        """Collects until there are enough reports, or no node is left, and returns the counts."""
        heard = time.monotonic()
        while self.counts[Verdict.ACCEPTED.value] < self.reports:
            self.ask(grid)
            replies = list(grid.pull_messages(list(self._waiting)))
            if Verdict.ACCEPTED.value in [self.take(reply) for reply in replies]:
                heard = time.monotonic()
            if self._exhausted(grid) or time.monotonic() > heard + self.patience:
                break
            if not replies:
                self.sleep(self.pause)
        return self.counts

    def ask(self, grid: Grid) -> None:
        """Sends offers to nodes that have none, as many at a time as there may be."""
        wanted = self.reports - self.counts[Verdict.ACCEPTED.value]
        free = min(self.at_once, wanted) - len(self._waiting)
        messages: list[Message] = []
        for node in grid.get_node_ids():
            if len(messages) >= free:
                break
            if not self._may_ask(node):
                continue
            try:
                message = self._offer(node)
            except FAILURES as error:  # nobody is asked until the store works again
                log.warning("there is no offer now: %s", first_line(error))
                break
            if message is not None:
                messages.append(message)
        nodes = [message.metadata.dst_node_id for message in messages]
        for node, sent in zip(nodes, grid.push_messages(messages), strict=False):
            if sent:
                self._waiting[sent] = node

    def take(self, message: Message) -> str:
        """Takes one reply, and returns what became of it."""
        node = self._waiting.pop(message.metadata.reply_to_message_id, None)
        said = "unknown message" if node is None else self._taken(message, node)
        self.counts[said] += 1
        return said

    def _taken(self, message: Message, node: int) -> str:
        if message.has_error():  # the offer stays open: the node gets the same one again
            log.warning("node %d did not answer: %s", node, message.error.reason)
            self._rests[node] = time.monotonic() + RETRY_SECONDS
            return UNAVAILABLE
        try:
            answer = read_reply(message)
            if answer == LATER:
                self._rests[node] = time.monotonic() + RETRY_SECONDS
                return UNAVAILABLE
            if isinstance(answer, Refusal):
                self._done.add(node)
                self.reasons[answer.reason] += 1
                return REFUSED
            verdict = self._written(node, answer)
        except Malformed as error:
            log.warning("node %d sent what is no report: %s", node, error)
            self._done.add(node)
            return MALFORMED
        assert isinstance(verdict, Verdict)
        return verdict.value

    def _written(self, node: int, report: bytes) -> Issued | Verdict:
        """Returns what became of a report. It was paid for, so it is tried until the store can be
        written again, or patience ends.
        """
        until = time.monotonic() + self.patience
        while True:
            try:
                return self.keeper.report(self._tokens[node], self.model, report).result()
            except FAILURES as error:
                if time.monotonic() > until:
                    raise
                log.warning("a report of node %d waits for the store: %s", node, first_line(error))
                self.sleep(FAILURE_SECONDS)

    def _offer(self, node: int) -> Message | None:
        """Returns the message for a node's next offer, or for the one that it holds."""
        if node not in self._tokens:
            (self._tokens[node],) = self.keeper.issue_tokens(1, self.reports_per_node)
        issued = self.keeper.offer(self._tokens[node], self.model).result()
        if not isinstance(issued, Issued):
            self._done.add(node)
            return None
        left = max(1.0, issued.expires_at - self.keeper.clock())
        return offer_message(b"".join(self.keeper.encoded(issued)), node, left)

    def _may_ask(self, node: int) -> bool:
        busy = node in self._done or node in self._waiting.values()
        return not busy and self._rests.get(node, 0.0) <= time.monotonic()

    def _exhausted(self, grid: Grid) -> bool:
        """Whether there are nodes, and all of them have nothing more to give."""
        nodes = set(grid.get_node_ids())
        return bool(nodes) and not self._waiting and nodes <= self._done
