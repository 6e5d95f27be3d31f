"""A front end without its transport: the store on disk, what is handed out of it, and what may
happen to an offer or a report.

    offer(token, model)            the offer that this token holds, or a new one
    report(token, model, bytes)    decoded strictly, counted once, stored before it is acknowledged

`admission.py` decides, `writer.py` commits in groups, another process makes versions of θ from the
accepted reports (`updater.py`), and `follower.py` sees them.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import sqlalchemy as sql

from pgc.errors import PgcError
from pgc.service import history, store, token_store
from pgc.service.admission import Issued, OfferRequest, ReportRequest, Verdict
from pgc.service.database import Database
from pgc.service.follower import Follower, Handed
from pgc.service.writer import Busy, Writer
from pgc.wire import Malformed
from pgc.wire.offer import offer_head
from pgc.wire.report import split

log = logging.getLogger("pgc.service")
OFFER_SECONDS = 3600
MOST_BEHIND = 5000
"""No new offers are made while more than this many reports wait for a process that updates."""
ISSUED, NOT_WRITTEN, MALFORMED = "issued", "not written", "malformed"
BUSY, BEHIND = "too busy", "updates are behind"
"""Results of requests, beside the verdicts."""


class Behind(Busy):
    """Reports come faster than they are applied, or nobody applies them."""


class Keeper:
    """A front end without its transport. Each process has one."""

    def __init__(
        self,
        url: str,
        *,
        offer_seconds: int = OFFER_SECONDS,
        run_code: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Opens the store. `clock` returns seconds since 1970; `run_code` is whether mechanisms
        that models name as MODULE:CLASS may be imported.
        """
        self.url, self.offer_seconds, self.clock = url, offer_seconds, clock
        self.counts: Counter[tuple[str, str]] = Counter()
        """How many requests for offers and how many reports had each result since this process
        began."""
        self.wake_updater: Callable[[], None] = lambda: None
        """Called after reports were accepted."""
        self.answered: Callable[[str, int], None] = lambda model, versions: None
        """Called with each accepted report's model, and by how many versions it was behind."""
        self.database = Database(self.url)
        self.follower = Follower(self.database, run_code=run_code)
        self._writer = Writer(self.database, lambda: self.clock(), self._accepted)

    @property
    def models(self) -> dict[str, Handed]:
        """What is handed out of each model."""
        return self.follower.models

    def offer(self, token: str, name: str) -> Future[Issued | Verdict]:
        """Decides about an offer for this token; returns a future of it, or of a verdict.

        `encoded` makes its bytes. The future is done when the offer is on disk, so that its report
        is recognised even after a crash.
        """
        model = self._model(name)
        if self.progress(name).untaken > MOST_BEHIND:
            self.counts["offers", BEHIND] += 1
            raise Behind
        expires_at = int(self.clock()) + self.offer_seconds
        fresh = Issued(
            secrets.randbits(64), model.version, expires_at, name, token_store.hash_token(token)
        )
        return self._submit("offers", OfferRequest(fresh))

    def is_at_hand(self, issued: Issued) -> bool:
        """Returns whether the version that an offer was issued for is in memory."""
        return self.follower.at_hand(issued.model, issued.version) is not None

    def encoded(self, issued: Issued) -> tuple[bytes, bytes]:
        """Returns the bytes of an offer, which are the same whenever it is asked for.

        They are in two parts; the second, which can be large, is shared by all offers of a version.
        """
        tail = self.follower.tail(issued.model, issued.version)
        return offer_head(issued.offer_id, issued.version, issued.expires_at), tail

    def progress(self, name: str) -> store.Progress:
        """Returns how far a model has come over all front ends, at the last look at the store."""
        return self.follower.progress(name)

    def report(self, token: str, name: str, data: bytes) -> Future[Issued | Verdict]:
        """Stores a report once, and returns a future of the verdict.

        Malformed bytes are refused at once, before anything is looked up.
        """
        model = self._model(name)
        try:
            offer_id, version, payload = split(data)
            model.query.decode_code(payload)
        except Malformed:
            self.counts["reports", MALFORMED] += 1
            raise
        request = ReportRequest(token_store.hash_token(token), name, offer_id, version, payload)
        future = self._submit("reports", request)
        future.add_done_callback(lambda done: self._answer(name, version, done))
        return future

    def _answer(self, name: str, version: int, done: Future[Issued | Verdict]) -> None:
        if not done.cancelled() and not done.exception() and done.result() is Verdict.ACCEPTED:
            self.answered(name, max(0, self.models[name].version - version))

    def _submit(self, what: str, request: OfferRequest | ReportRequest) -> Future[Issued | Verdict]:
        try:
            future = self._writer.submit(request)
        except Busy:
            self.counts[what, BUSY] += 1
            raise
        future.add_done_callback(lambda done: self._count(what, done))
        return future

    def _count(self, what: str, done: Future[Issued | Verdict]) -> None:
        if done.cancelled() or done.exception() is not None:
            said = NOT_WRITTEN
        else:
            result = done.result()
            said = result.value if isinstance(result, Verdict) else ISSUED
        self.counts[what, said] += 1

    def _accepted(self) -> None:
        self.wake_updater()
        self.follower.wake()

    def issue_tokens(self, count: int, submissions: int, **more: Any) -> list[str]:
        """Returns new tokens, each good for `submissions` reports; only their hashes are stored."""
        return issue_tokens(self.database, count, submissions, **more)

    def revoke_token(self, token: str) -> bool:
        """Revokes a token, so that it gets no offers any more. Returns whether it was known."""
        with self.database.writing() as db:
            return token_store.revoke_token(db, token_store.hash_token(token))

    def roll_back(
        self, name: str, version: int, *, who: str, reason: str, seconds: float = 30.0
    ) -> int:
        """Restores θ, optimiser and average of an earlier version, and returns the new version.

        The version number continues to grow. The process that updates does it; if none does within
        so many seconds, the wish is withdrawn and refused.
        """
        self._model(name)
        wish = history.Rollback(
            secrets.token_hex(16), name, version, who, reason, int(self.clock())
        )
        with self.database.writing() as db:
            history.ask_rollback(db, wish)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.wake_updater()
            time.sleep(0.05)
            with self.database.reading() as db:
                found = history.find_rollback(db, wish.id)
            if found is not None and found.refused is not None:
                raise PgcError(found.refused)
            if found is not None and found.made is not None:
                self.follower.wait_for_a_look()
                return found.made
        with self.database.writing() as db:
            withdrawn = history.withdraw_rollback(db, wish.id)
            found = history.find_rollback(db, wish.id)
        if withdrawn:
            raise NoUpdates("no process updates θ at the moment, so nothing was rolled back")
        assert found is not None
        if found.made is None:
            raise PgcError(str(found.refused))
        return found.made

    def versions(self, name: str, most: int = 100) -> list[store.Listed]:
        """Returns the newest versions, each with the number of the last report in it."""
        self._model(name)
        with self.database.reading() as db:
            return store.list_versions(db, name, most)

    @property
    def works(self) -> bool:
        """Whether the threads that read and write the store run."""
        return self._writer.works and self.follower.works

    @property
    def failed_at(self) -> float:
        """When requests could not be written last, by the monotonic clock."""
        return self._writer.failed_at

    @property
    def waiting(self) -> int:
        """Number of requests that wait to be written."""
        return self._writer.waiting

    def close(self) -> None:
        """Finishes what is waiting, and closes the store."""
        self._writer.close()
        self.follower.close()
        self.database.close()

    def _model(self, name: str) -> Handed:
        if name not in self.models:
            raise Malformed(f"there is no model '{name}'")
        return self.models[name]


class NoUpdates(PgcError):
    """No process updates θ."""


def issue_tokens(
    database: Database,
    count: int,
    submissions: int,
    *,
    batch: str | None = None,
    seconds: float | None = None,
) -> list[str]:
    """Returns new tokens, each good for `submissions` reports; only their hashes are stored.

    They are a batch: by default one named after the day. With `seconds`, they get no offers after
    that time.
    """
    if count < 1 or not 1 <= submissions < 2**31:
        raise PgcError(
            "a token is good for at least one report, and there is at least one token to issue"
        )
    if batch is not None and not (0 < len(batch) <= 64 and batch.isprintable()):
        raise PgcError("a label has between 1 and 64 printable characters")
    if seconds is not None and not 0 < seconds <= 10**9:
        raise PgcError("tokens expire in the future, within a billion seconds")
    now = int(time.time())
    expires_at = None if seconds is None else now + int(seconds)
    made = [secrets.token_urlsafe(32) for _ in range(count)]
    hashes = [token_store.hash_token(token) for token in made]
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    name = batch if batch is not None else f"{day}.{secrets.token_hex(3)}"
    try:
        with database.writing() as db:
            token_store.issue_tokens(db, hashes, submissions, name, now, expires_at)
    except sql.exc.IntegrityError:
        raise PgcError(f"there is a batch of tokens '{name}' already; give another label") from None
    return made
