"""Reports that were accepted become versions of θ (step 4, and step 1 for each version), by one
process at a time.

The process that updates is elected through the database. With PostgreSQL it is the one whose
session holds an advisory lock. Versions are written in that very session, so a process that has
lost the lock cannot write. When the process dies, the lock is free, and another one continues from
what the store holds. With SQLite it is the process that holds a lock on a file beside the database.
The other processes load each new version and hand it out.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import sqlalchemy as sql

from pgc.errors import first_line
from pgc.service import store
from pgc.service.database import Database, explicit
from pgc.service.model import Model, Published
from pgc.service.schema import LOCK

log = logging.getLogger("pgc.service")
POLL_SECONDS = 0.1
"""Seconds between two looks at what other front ends did."""
SWEEP_SECONDS = 60.0
RECENT, RECENT_NUMBERS = 2000, 2**24
"""The most versions that are held in memory to make offers from, and the most numbers in them."""


class Lease:
    """The right to update θ, which one process holds at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: sql.Connection | None = None
        self._file: int | None = None

    def take(self) -> bool:
        """Takes the lease if it is free; returns whether this process holds it."""
        if self._database.path is not None:
            return self._take_file(str(self._database.path) + ".updater")
        if self._session is None:
            session = self._database.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            )
            if not session.execute(
                sql.text("SELECT pg_try_advisory_lock(:a, 1)"), {"a": LOCK}
            ).scalar_one():
                session.close()
                return False
            # a process that hangs, and so does not ask, loses the lease
            session.exec_driver_sql("SET idle_session_timeout = '30s'")
            self._session = session
        try:
            self._session.execute(sql.text("SELECT 1"))
        except sql.exc.SQLAlchemyError:
            self.leave()
            return False
        return True

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """Opens a transaction that fails if the lease is lost."""
        if self._session is None:
            with self._database.writing() as db:
                yield db
            return
        with explicit(self._session, "BEGIN") as db:
            yield db

    def leave(self) -> None:
        """Frees the lease for another process."""
        if self._session is not None:
            session, self._session = self._session, None
            with contextlib.suppress(sql.exc.SQLAlchemyError):
                session.invalidate()
                session.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take_file(self, path: str) -> bool:
        if self._file is None:
            opened = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(opened)
                return False
            self._file = opened
        return True


class Updater:
    """A thread that updates the models, or loads the versions of the process that does."""

    def __init__(
        self, database: Database, models: dict[str, Model], found: Callable[[str, str], Model]
    ) -> None:
        """Starts the thread. `found` makes a model from its name and its config in the store."""
        self._database, self._models, self._found = database, models, found
        self._lease, self._leads = Lease(database), False
        self._applied: dict[str, int] = {}
        self._progress: dict[str, store.Progress] = {}
        self._recent: dict[tuple[str, int], Published] = {}
        self._lock = threading.Lock()
        self._wake, self._stop, self._turned = threading.Event(), False, threading.Condition()
        self._turns, self._failing, self._swept = 0, False, time.monotonic()
        self._turn()
        self._thread = threading.Thread(target=self._run, name="pgc-updater", daemon=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether this process updates θ."""
        return self._leads

    def wake(self) -> None:
        """Tells the thread that there is something to do."""
        self._wake.set()

    def wait_until_applied(self, seconds: float = 60.0) -> None:
        """Waits until reports that were committed before this call are applied.

        If another process leads, it only waits until this one has looked at the store.
        """
        with self._database.reading() as db:
            wanted = {name: store.count_accepted(db, name) for name in store.list_models(db)}
        with self._turned:
            turn = self._turns + 2  # the turn under way may have looked before this call
            while self._turns < turn or (
                self._leads and any(self._applied.get(name, 0) < n for name, n in wanted.items())
            ):
                self._wake.set()
                if not self._turned.wait(seconds):
                    raise TimeoutError("the updater makes no progress")

    def recent(self, name: str, version: int) -> Published | None:
        """Returns a version if it is in memory, else None."""
        newest = self._models[name].published
        return newest if version == newest.version else self._recent.get((name, version))

    def published(self, name: str, version: int) -> Published:
        """Returns a version that was offered, however old."""
        made = self.recent(name, version)
        if made is None:
            with self._database.reading() as db:
                kept = store.load_version(db, name, version)
            if kept is None:
                raise LookupError(f"version {version} of {name} is not kept")
            made = self._models[name].as_published(self._models[name].unpack(kept.state))
            self._remember(name, made)
        return made

    def progress(self, name: str) -> store.Progress:
        """Returns how far a model had come at the last look at the store."""
        return self._progress[name]

    def close(self) -> None:
        """Stops the thread, and leaves the lease to another process."""
        self._stop = True
        self._wake.set()
        self._thread.join()
        self._lease.leave()

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            try:
                self._turn()
            # acknowledged reports are on disk: the next turn tries again from what the store has
            except Exception as error:
                self._applied.clear()
                self._lease.leave()  # its session may be broken: next time it is a new one
                if not self._failing:
                    log.error(
                        "updating fails, and is tried again: %s",
                        first_line(error),
                        exc_info=not isinstance(error, sql.exc.DBAPIError),
                    )
                self._failing = True
                time.sleep(POLL_SECONDS)
            else:
                if self._failing:
                    log.warning("updating works again")
                self._failing = False

    def _turn(self) -> None:
        leads = self._lease.take()
        if leads != self._leads:
            log.info(
                "this process updates θ" if leads else "this process does not update θ any more"
            )
            self._leads = leads
        with self._database.reading() as db:
            listed = store.list_models(db)
        failed: list[Exception] = []
        for name, config in listed.items():
            try:
                if name not in self._models:
                    model = self._found(name, config)
                    self._load(model)
                    self._look(model)  # before others see the model
                    self._models[name] = model
                self._look(self._models[name])
                self._advance(self._models[name])
            except Exception as error:  # the other models go on
                self._applied.pop(name, None)
                failed.append(error)
        if failed:
            raise failed[0]
        if leads and time.monotonic() > self._swept + SWEEP_SECONDS:
            self._swept = time.monotonic()
            with self._lease.writing() as db:
                store.prune(db, int(time.time()))
            self._database.checkpoint()
        with self._turned:
            self._turns += 1
            self._turned.notify_all()

    def _advance(self, model: Model) -> None:
        """Loads the newest version, if it is not loaded yet.

        If this process leads, applies accepted reports in order, and stores each new version.
        """
        with self._database.reading() as db:
            newest = store.newest_version(db, model.name)
        if model.name not in self._applied or newest != model.published.version:
            self._load(model)
        with self._database.reading() as db:
            waiting = (
                store.reports_after(db, model.name, self._applied[model.name], model.at_once)
                if self._leads
                else []
            )
        if waiting:
            self._apply(model, waiting)
            self._wake.set()  # there may be more
        self._look(model)

    def _look(self, model: Model) -> None:
        with self._database.reading() as db:
            self._progress[model.name] = store.progress(db, model.name)

    def _load(self, model: Model) -> None:
        """Loads the newest version from the store."""
        with self._database.reading() as db:
            kept = store.load_version(db, model.name)
        assert kept is not None
        model.state, self._applied[model.name] = model.unpack(kept.state), kept.applied
        self._publish(model, model.as_published(model.state))

    def _apply(self, model: Model, waiting: list[store.Accepted]) -> None:
        """Applies all of these reports, or none if a version was made elsewhere meanwhile."""
        estimates = [self._estimate(model, report) for report in waiting]
        made: list[tuple[store.Kept, Published]] = []
        done = 0
        while done < len(waiting):
            before = model.version
            done += model.accept(estimates[done:], [report.version for report in waiting[done:]])
            if model.version != before:
                kept = store.Kept(model.version, waiting[done - 1].seq, model.pack())
                made.append((kept, model.as_published(model.state)))
        if made:
            try:
                with self._lease.writing() as db:
                    store.keep_versions(
                        db, model.name, model.published.version, [kept for kept, _ in made]
                    )
            # the model was rolled back, or another process took over: the store is right
            except store.Overtaken:
                self._load(model)
                return
        self._applied[model.name] = waiting[-1].seq
        for _, published in made:
            self._publish(model, published)

    def _estimate(self, model: Model, report: store.Accepted) -> np.ndarray:
        basis = (
            None
            if model.state.basis is None
            else self.published(model.name, report.version).template.basis
        )
        return model.estimate(report.offer_id, report.payload, basis)

    def _publish(self, model: Model, made: Published) -> None:
        self._remember(model.name, made)
        model.published = made

    def _remember(self, name: str, made: Published) -> None:
        with self._lock:
            self._recent[name, made.version] = made
            while len(self._recent) > max(1, min(RECENT, RECENT_NUMBERS // made.numbers)):
                del self._recent[next(iter(self._recent))]
