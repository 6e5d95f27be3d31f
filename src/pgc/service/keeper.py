"""The service without its transport: models in memory, the store on disk, and what may happen to an offer or a report.

    offer(token, model)            the offer that this token holds, or a new one
    report(token, model, bytes)    decoded strictly, counted once, on the disk before it is acknowledged

θ is a function of the accepted reports in their order: each model's newest version is in the store with the place of the last
report that went into it, and after a crash the reports behind it are applied again.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sql

from pgc.config import TrainConfig, from_yaml, to_yaml
from pgc.errors import PgcError
from pgc.service import store
from pgc.service.model import Model
from pgc.service.store import Issued, Verdict
from pgc.service.writer import Writer
from pgc.wire import Malformed, Offer
from pgc.wire.report import split

OFFER_SECONDS = 3600


@dataclass
class Keeper:
    """See the module. One for each process."""

    url: str
    offer_seconds: int = OFFER_SECONDS
    clock: Callable[[], float] = time.time
    models: dict[str, Model] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What became of offers and reports since this process began."""
    _applied: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Recover everything."""
        self._engine = store.connect(self.url)
        with self._engine.begin() as db:
            for name, config in store.list_models(db).items():
                self._recover(db, name, from_yaml(config))
        self._catch_up()
        self._writer = Writer(self._engine, self._catch_up)

    def create(self, name: str, config: TrainConfig) -> Model:
        """A new model."""
        if not name.replace("-", "").isalnum() or len(name) > 64:
            raise PgcError(f"a model's name has letters, digits and hyphens, at most 64 of them; not '{name}'")
        if name in self.models:
            raise PgcError(f"there is a model '{name}' already")
        model = Model(name, config)
        self._writer.submit(lambda db: store.create_model(db, name, to_yaml(model.config), model.pack())).result()
        self._applied[name] = 0
        self.models[name] = model
        return model

    def offer(self, token: str, name: str) -> Future[Offer | Verdict | None]:
        """Step 1. The future is done when the offer is on the disk: after a crash its report will be known."""
        model, now = self._model(name), int(self.clock())
        fresh = Issued(secrets.randbits(64), model.version, now + self.offer_seconds)
        hashed = store.hash_token(token)

        def take(db: sql.Connection) -> Offer | Verdict | None:
            issued = store.take_offer(db, hashed, name, fresh, now)
            if not isinstance(issued, Issued):
                return issued
            return self._offer(db, model, issued)

        future = self._writer.submit(take)
        future.add_done_callback(lambda done: self._count("offers", done))
        return future

    def report(self, token: str, name: str, data: bytes) -> Future[Verdict]:
        """Step 4, first half: decode, count, keep. Malformed bytes are refused here, before anything is looked up."""
        model, now = self._model(name), int(self.clock())
        offer_id, version, payload = split(data)
        model.query.decode_code(payload)
        hashed = store.hash_token(token)
        future = self._writer.submit(lambda db: store.take_report(db, hashed, name, offer_id, version, payload, now))
        future.add_done_callback(lambda done: self._count("reports", done))
        return future

    def _count(self, what: str, done: Future[Any]) -> None:
        result = "failed" if done.exception() else done.result()
        if isinstance(result, Verdict):
            result = result.value
        self.counts[what, "issued" if isinstance(result, Offer) else result or "used up"] += 1

    def ping(self) -> Future[None]:
        """Done when the store can be written."""
        return self._writer.submit(lambda db: None)

    def issue_tokens(self, count: int, submissions: int) -> list[str]:
        """New tokens, known to nobody but the caller."""
        made = [secrets.token_urlsafe(32) for _ in range(count)]
        hashes = [store.hash_token(token) for token in made]
        self._writer.submit(lambda db: store.issue_tokens(db, hashes, submissions)).result()
        return made

    def revoke_token(self, token: str) -> bool:
        """From now on it is unknown."""
        return self._writer.submit(lambda db: store.revoke_token(db, store.hash_token(token))).result()

    def roll_back(self, name: str, version: int) -> int:
        """Make θ, optimiser and average those of an earlier version; the version number goes on. Its number.

        What is in the buffer is dropped; reports that were made from a version in between are taken as stale ones are.
        """
        model = self._model(name)

        def work(db: sql.Connection) -> int:
            kept = store.load_version(db, name, version)
            if kept is None:
                raise PgcError(f"{name} has no version {version}")
            now = model.state
            state = model.unpack(kept.state)._replace(version=now.version + 1, received=now.received, discarded=now.discarded)
            store.keep_version(db, name, store.Kept(int(now.version) + 1, self._applied[name], model.pack(state)))
            return int(now.version) + 1

        return self._writer.submit(work).result()

    def versions(self, name: str, most: int = 100) -> list[tuple[int, int]]:
        """The newest versions, and the place of the last report in each."""
        with self._engine.connect() as db:
            return store.list_versions(db, self._model(name).name, most)

    @property
    def waiting(self) -> int:
        """Pieces of work that wait to be written."""
        return self._writer.waiting

    def close(self) -> None:
        """Finish what is waiting."""
        self._writer.close()
        self._engine.dispose()

    def _model(self, name: str) -> Model:
        if name not in self.models:
            raise Malformed(f"there is no model '{name}'")
        return self.models[name]

    def _offer(self, db: sql.Connection, model: Model, issued: Issued) -> Offer:
        """The offer itself: of the version that it was issued for."""
        if issued.version == model.version:
            return model.offer(issued.offer_id, issued.expires_at)
        kept = store.load_version(db, model.name, issued.version)
        assert kept is not None
        now, model.state = model.state, model.unpack(kept.state)
        try:
            return model.offer(issued.offer_id, issued.expires_at)
        finally:
            model.state = now

    def _recover(self, db: sql.Connection, name: str, config: TrainConfig) -> None:
        self.models[name] = Model(name, config)
        self._load(db, self.models[name])

    def _load(self, db: sql.Connection, model: Model) -> None:
        """The newest version that is kept."""
        kept = store.load_version(db, model.name)
        assert kept is not None
        model.state, self._applied[model.name] = model.unpack(kept.state), kept.applied

    def _catch_up(self) -> None:
        """Step 4, second half: apply what was accepted, in order, and keep each new version; all of it or nothing."""
        before = {name: (model.state, self._applied[name]) for name, model in self.models.items()}
        try:
            with self._engine.begin() as db:
                for name, model in self.models.items():
                    if store.newest_version(db, name) > model.version:  # it was rolled back
                        self._load(db, model)
                    for report in store.reports_after(db, name, self._applied[name]):
                        self._apply(db, model, report)
        except BaseException:
            for name, (state, applied) in before.items():
                self.models[name].state, self._applied[name] = state, applied
            raise

    def _apply(self, db: sql.Connection, model: Model, report: store.Accepted) -> None:
        version, basis = model.version, self._basis_of(db, model, report.version)
        model.accept(model.estimate(report.offer_id, report.version, report.payload, basis), report.version)
        self._applied[model.name] = report.seq
        if model.version != version:
            store.keep_version(db, model.name, store.Kept(model.version, report.seq, model.pack()))

    def _basis_of(self, db: sql.Connection, model: Model, version: int) -> np.ndarray | None:
        if model.state.basis is None:
            return None
        if version == model.version:
            return np.asarray(model.state.basis, np.float32)
        kept = store.load_version(db, model.name, version)
        assert kept is not None
        return np.asarray(model.unpack(kept.state).basis, np.float32)
