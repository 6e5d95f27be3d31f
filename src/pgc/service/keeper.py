"""The service without its transport: models in memory, the store on disk, and what may happen to an
offer or a report.

    offer(token, model)            the offer that this token holds, or a new one
    report(token, model, bytes)    decoded strictly, counted once, stored before it is acknowledged

`admission.py` decides, `writer.py` commits in groups, and `updater.py` makes versions of θ from the
accepted reports, in their order.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import sqlalchemy as sql

from pgc.config import TrainConfig, from_yaml, to_yaml
from pgc.config.files import refuse_code
from pgc.errors import PgcError
from pgc.service import store
from pgc.service.admission import Issued, OfferRequest, ReportRequest, Verdict
from pgc.service.database import Database
from pgc.service.model import Model
from pgc.service.updater import Updater
from pgc.service.watch import Point
from pgc.service.writer import Busy, Writer
from pgc.wire import Malformed
from pgc.wire.report import split

log = logging.getLogger("pgc.service")
OFFER_SECONDS = 3600
MOST_BEHIND = 5000
"""No new offers are made while more than this many reports, beyond a full buffer, wait to be
applied."""


@dataclass
class Keeper:
    """The service without its transport. Each process has one."""

    url: str
    offer_seconds: int = OFFER_SECONDS
    clock: Callable[[], float] = time.time
    run_code: bool = True
    """Whether code that a model's config in the store names (MODULE:NAME) may be run."""
    models: dict[str, Model] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many requests for offers and how many reports had each result since this process
    began."""

    points: dict[str, list[Point]] = field(default_factory=dict)
    """How learning went since this process began (`watch.py`)."""

    def __post_init__(self) -> None:
        """Opens the store, and recovers every model from it."""
        self.database = Database(self.url)
        self._made_here: set[str] = set()
        self._updater = Updater(self.database, self.models, self._found)
        self._writer = Writer(self.database, lambda: self.clock(), self._updater.wake)

    def _found(self, name: str, text: str) -> Model:
        """Returns the model of a config in the store."""
        config = from_yaml(text)
        run_code = self.run_code or name in self._made_here
        refuse_code(vars(config), f"the model '{name}' in the store", run_code)
        return Model(name, config)

    def create(self, name: str, config: TrainConfig, theta: np.ndarray | None = None) -> Model:
        """Makes a new model, and returns it; `theta` is θ_0 of a policy that only devices know.

        If another process has just made the same model, that one is returned.
        """
        if not (name.isascii() and name.replace("-", "").isalnum() and len(name) <= 64):
            raise PgcError(
                f"a model's name has letters, digits and hyphens, at most 64 of them; not '{name}'"
            )
        made = Model(name, config, theta)
        self._made_here.add(name)
        try:
            with self.database.writing() as db:
                store.create_model(db, name, to_yaml(made.config), made.pack())
        except sql.exc.IntegrityError:
            self.wait_until_applied()
            if name not in self.models or self.models[name].config != made.config:
                raise PgcError(f"there is a model '{name}' already") from None
        self.wait_until_applied()
        return self.models[name]

    def offer(self, token: str, name: str) -> Future[Issued | Verdict]:
        """Decides about an offer for this token; returns a future of it, or of a verdict.

        `encoded` makes its bytes. The future is done when the offer is on disk, so that its report
        is recognised even after a crash.
        """
        model = self._model(name)
        if self.progress(name).unapplied > MOST_BEHIND + int(model.aggregator.buffer_size):
            raise Busy
        expires_at = int(self.clock()) + self.offer_seconds
        fresh = Issued(
            secrets.randbits(64), model.published.version, expires_at, name, store.hash_token(token)
        )
        return self._submit("offers", OfferRequest(fresh))

    def is_at_hand(self, issued: Issued) -> bool:
        """Returns whether the version that an offer was issued for is in memory."""
        return self._updater.recent(issued.model, issued.version) is not None

    def encoded(self, issued: Issued) -> tuple[bytes, bytes]:
        """Returns the bytes of an offer, which are the same whenever it is asked for.

        They are in two parts; the second, which can be large, is shared by all offers of a version.
        """
        return self._updater.published(issued.model, issued.version).offer_in_two(
            issued.offer_id, issued.expires_at
        )

    def progress(self, name: str) -> store.Progress:
        """Returns how far a model has come over all front ends, at the last look at the store."""
        return self._updater.progress(name)

    def report(self, token: str, name: str, data: bytes) -> Future[Issued | Verdict]:
        """Stores a report once, and returns a future of the verdict.

        Malformed bytes are refused at once, before anything is looked up.
        """
        model = self._model(name)
        try:
            offer_id, version, payload = split(data)
            model.query.decode_code(payload)
        except Malformed:
            self.counts["reports", "malformed"] += 1
            raise
        return self._submit(
            "reports", ReportRequest(store.hash_token(token), name, offer_id, version, payload)
        )

    def _submit(self, what: str, request: OfferRequest | ReportRequest) -> Future[Issued | Verdict]:
        future = self._writer.submit(request)
        future.add_done_callback(lambda done: self._count(what, done))
        return future

    def _count(self, what: str, done: Future[Issued | Verdict]) -> None:
        if done.cancelled() or done.exception() is not None:
            said = "not written"
        else:
            result = done.result()
            said = result.value if isinstance(result, Verdict) else "issued"
        self.counts[what, said] += 1

    def ping(self) -> None:
        """Returns if the store can be written, and raises the store's error if it cannot."""
        with self.database.writing() as db:
            db.execute(sql.text("SELECT 1"))

    def wait_until_applied(self) -> None:
        """Waits until all reports that were acknowledged before this call are applied.

        If another process updates θ, it only waits until this one has looked for new versions.
        """
        self._updater.wait_until_applied()

    @property
    def leads(self) -> bool:
        """Whether this process updates θ."""
        return self._updater.leads

    def issue_tokens(self, count: int, submissions: int) -> list[str]:
        """Returns new tokens, each good for `submissions` reports; only their hashes are stored."""
        return issue_tokens(self.database, count, submissions)

    def revoke_token(self, token: str) -> bool:
        """Revokes a token, so that it is unknown from now on. Returns whether it was known."""
        with self.database.writing() as db:
            return store.revoke_token(db, store.hash_token(token))

    def roll_back(self, name: str, version: int) -> int:
        """Restores θ, optimiser and average of an earlier version, and returns the new version.

        The version number continues to grow. Reports accepted until now stay counted, but those
        that wait in the buffer are dropped. Reports that arrive later, made from a version in
        between, are treated as other stale reports are.
        """
        model = self._model(name)
        with self.database.writing() as db:
            old, newest, accepted = store.lock_for_rollback(db, name, version)
            state = model.rolled_back(model.unpack(old.state), model.unpack(newest.state), accepted)
            number = int(state.version)
            store.keep_versions(
                db, name, newest.version, [store.Kept(number, accepted, model.pack(state), version)]
            )
        log.info("%s: rolled back to version %d, as version %d", name, version, number)
        self.wait_until_applied()
        return number

    def versions(self, name: str, most: int = 100) -> list[store.Listed]:
        """Returns the newest versions, each with the number of the last report in it."""
        with self.database.reading() as db:
            return store.list_versions(db, self._model(name).name, most)

    @property
    def waiting(self) -> int:
        """Number of requests that wait to be written."""
        return self._writer.waiting

    def close(self) -> None:
        """Finishes what is waiting, and closes the store."""
        self._writer.close()
        self._updater.close()
        self.database.close()

    def _model(self, name: str) -> Model:
        if name not in self.models:
            raise Malformed(f"there is no model '{name}'")
        return self.models[name]


def issue_tokens(database: Database, count: int, submissions: int) -> list[str]:
    """Returns new tokens, each good for `submissions` reports; only their hashes are stored."""
    if count < 1 or not 1 <= submissions < 2**31:
        raise PgcError(
            "a token is good for at least one report, and there is at least one token to issue"
        )
    made = [secrets.token_urlsafe(32) for _ in range(count)]
    with database.writing() as db:
        store.issue_tokens(db, [store.hash_token(token) for token in made], submissions)
    return made
