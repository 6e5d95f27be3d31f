"""Reports that were accepted become versions of θ (step 4, and step 1 for each version), by one
process at a time: the one that holds the lease (`lease.py`).

It also does all else that needs the model itself: it makes what front ends hand out, fulfils
operators' wishes to go back, and looks how learning goes.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable

import numpy as np
import sqlalchemy as sql

from pgc.config import from_yaml
from pgc.errors import PgcError, first_line, refuse_code
from pgc.service import history, store
from pgc.service.database import Database
from pgc.service.lease import Lease
from pgc.service.model import Model, Published
from pgc.service.pace import Pace
from pgc.service.traces import traced

log = logging.getLogger("pgc.service")
SWEEP_SECONDS = 60.0
BEAT_SECONDS = 15.0
"""Seconds between two signs of life of the process that updates."""
AGAIN_SECONDS = 30.0
"""Seconds until a model that could not be updated is tried again."""
MOST_UNTOLD = 1000
"""Reports that may be applied before front ends are told so."""
OLDEST_ROLLBACK = 120.0
"""Seconds after which nobody waits for a rollback any more."""
RECENT, RECENT_NUMBERS = 2000, 2**24
"""The most versions that are held in memory to decode reports of, and the most numbers in them."""


class Updater:
    """A thread that updates the models as long as it holds the lease."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        *,
        run_code: bool = True,
        where: str = "",
        told: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts the thread.

        `where` is the front end beside which this process runs, for people. `run_code` is whether
        code that a model's config names (MODULE:NAME) may be run. `told` is called after there is
        something new for front ends.
        """
        self._database, self._lease, self._run_code = database, lease, run_code
        self._where, self._told = where, told
        self.models: dict[str, Model] = {}
        self._leads = False
        self._applied: dict[str, int] = {}
        self._recent: dict[tuple[str, int], Published] = {}
        self._pace, self._stop, self._turned = Pace(), False, threading.Condition()
        self._turns, self._failing = 0, False
        self._swept, self._beaten = time.monotonic(), -BEAT_SECONDS
        self._broken: dict[str, float] = {}
        """Models that cannot be updated, and when each of them is tried again."""
        self._told_consumed: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="pgc-updater", daemon=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Whether this process updates θ."""
        return self._leads

    def wake(self) -> None:
        """Tells the thread that there is something to do."""
        self._pace.hurry()

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
                self.wake()
                if not self._turned.wait(seconds):
                    raise TimeoutError("the updater makes no progress")

    def close(self) -> None:
        """Stops the thread, and leaves the lease to another process."""
        self._stop = True
        self.wake()
        self._thread.join()
        self._lease.leave()

    def _run(self) -> None:
        while not self._stop:
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
                        exc_info=not isinstance(error, sql.exc.SQLAlchemyError),
                    )
                self._failing = True
            else:
                if self._failing:
                    log.warning("updating works again")
                self._failing = False
            self._pace.wait()

    def _turn(self) -> None:
        leads = self._lease.take()
        if leads != self._leads:
            log.info(
                "this process updates θ" if leads else "this process does not update θ any more"
            )
            self._leads = leads
        if leads:
            self._lead()
        with self._turned:
            self._turns += 1
            self._turned.notify_all()

    def _lead(self) -> None:
        with self._database.reading() as db:
            listed, wishes = store.list_models(db), history.open_rollbacks(db)
        for name, config in listed.items():
            if time.monotonic() < self._broken.get(name, 0.0):
                continue
            try:
                if name not in self.models:
                    self.models[name] = _found(name, config, self._run_code)
                    if not self._lease.take():  # it took so long that another process has it now
                        return
                self._advance(self.models[name])
            except sql.exc.SQLAlchemyError:  # the session, and so the lease, may be lost
                raise
            except Exception as error:  # the other models go on
                self._applied.pop(name, None)
                if name not in self._broken:
                    log.error("%s is not updated: %s", name, first_line(error))
                self._broken[name] = time.monotonic() + AGAIN_SECONDS
            else:
                self._broken.pop(name, None)
        for wish in wishes:
            self._fulfil(wish)
        self._keep_house()

    def _keep_house(self) -> None:
        """Says now and then that this process lives and how far it has come, and tidies up."""
        now = time.monotonic()
        ahead = max(
            (seq - self._told_consumed.get(name, 0) for name, seq in self._applied.items()),
            default=0,
        )
        if now > self._beaten + BEAT_SECONDS or ahead > MOST_UNTOLD:
            self._beaten = now
            with self._lease.writing() as db:
                facts = {"where": self._where, "not_updated": sorted(self._broken)}
                history.beat(db, history.Process(history.UPDATER, int(time.time()), facts))
                for name, seq in self._applied.items():
                    if seq != self._told_consumed.get(name):
                        store.set_consumed(db, name, seq)
            self._told_consumed = dict(self._applied)
        if now > self._swept + SWEEP_SECONDS:
            self._swept = now
            with self._lease.writing() as db:
                store.prune(db, int(time.time()))
            self._database.checkpoint()

    def _advance(self, model: Model) -> None:
        """Applies accepted reports in order, and stores each new version."""
        with self._database.reading() as db:
            newest = store.newest_version(db, model.name)
        if model.name not in self._applied or newest != model.published.version:
            self._load(model)
        with self._database.reading() as db:
            waiting = store.reports_after(db, model.name, self._applied[model.name], model.at_once)
        if waiting:
            with traced("update", model=model.name, reports=len(waiting)) as add:
                self._apply(model, waiting)
                add("version", model.published.version)
            self._pace.hurry()  # there may be more

    def _load(self, model: Model) -> None:
        """Loads the newest version from the store, and fills in what an older pgc left out there:
        the card, and what front ends hand out.
        """
        with self._database.reading() as db:
            kept = store.load_version(db, model.name)
            bare = store.without_offer(db, model.name)
        assert kept is not None
        model.state, self._applied[model.name] = model.unpack(kept.state), kept.applied
        self._publish(model, model.as_published(model.state))
        with self._lease.writing() as db:
            store.set_card(db, model.name, json.dumps(model.card, default=list))
            for version in bare:
                old = store.load_version(db, model.name, version)
                assert old is not None
                made = model.as_published(model.unpack(old.state))
                policy = made.policies if version == kept.version else None
                store.set_offer(
                    db, model.name, old._replace(offer=made.template.tail, policy=policy)
                )
        self._told()

    def _apply(self, model: Model, waiting: list[store.Accepted]) -> None:
        """Applies all of these reports, or none if a version was made elsewhere meanwhile."""
        estimates = [self._estimate(model, report) for report in waiting]
        made: list[tuple[store.Kept, Published]] = []
        done = 0
        while done < len(waiting):
            before = model.version
            done += model.accept(estimates[done:], [report.version for report in waiting[done:]])
            if model.version != before:
                published = model.as_published(model.state)
                made.append((model.kept(waiting[done - 1].seq, published), published))
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
        if made:
            self._told()

    def _fulfil(self, wish: history.Rollback) -> None:
        """Answers a request to roll back, whatever comes of it."""
        if wish.asked_at < time.time() - OLDEST_ROLLBACK:
            why = "nobody answered in time, so whoever asked was told that nothing happened"
        elif wish.model not in self.models:
            why = f"{wish.model} is not updated at the moment"
        else:
            try:
                self._roll_back(self.models[wish.model], wish)
                return
            except sql.exc.SQLAlchemyError:  # the session, and so the lease, may be lost
                raise
            except Exception as error:
                self._applied.pop(wish.model, None)  # it is loaded again
                why = first_line(error)
        with self._lease.writing() as db:
            history.answer_rollback(db, wish.id, refused=why)

    def _roll_back(self, model: Model, wish: history.Rollback) -> None:
        """Restores an earlier version under the next number.

        Reports accepted until now stay counted, but those that wait in the buffer are dropped.
        Reports that arrive later, made from a version in between, are treated as other stale
        reports are.
        """
        with self._lease.writing() as db:
            try:
                old, newest, accepted = store.lock_for_rollback(db, model.name, wish.version)
            except PgcError as error:
                history.answer_rollback(db, wish.id, refused=str(error))
                return
            state = model.rolled_back(model.unpack(old.state), model.unpack(newest.state), accepted)
            if not history.answer_rollback(db, wish.id, made=int(state.version)):
                return  # it was withdrawn meanwhile
            model.state = state
            published = model.as_published(state)
            kept = model.kept(accepted, published, wish.version)
            store.keep_versions(db, model.name, newest.version, [kept])
        self._applied[model.name] = accepted
        self._publish(model, published)
        log.info(
            "%s: rolled back to version %d, as version %d, for %s: %s",
            *(model.name, wish.version, published.version, wish.who, wish.reason),
        )
        self._told()

    def _estimate(self, model: Model, report: store.Accepted) -> np.ndarray:
        basis = None
        if model.state.basis is not None:
            try:
                basis = self._published(model, report.version).template.basis
            except store.NotKept as error:  # it must not hold up the reports that come after it
                log.error("a report counts as zeros: %s", error)
                return np.zeros(len(model.published.template.theta))
        return model.estimate(report.offer_id, report.payload, basis)

    def _published(self, model: Model, version: int) -> Published:
        """Returns a version that was offered, however old."""
        if version == model.published.version:
            return model.published
        made = self._recent.get((model.name, version))
        if made is None:
            with self._database.reading() as db:
                kept = store.load_version(db, model.name, version)
            if kept is None:
                raise store.NotKept(f"version {version} of {model.name} is not kept")
            made = model.as_published(model.unpack(kept.state))
            self._remember(model.name, made)
        return made

    def _publish(self, model: Model, made: Published) -> None:
        self._remember(model.name, made)
        model.published = made

    def _remember(self, name: str, made: Published) -> None:
        self._recent[name, made.version] = made
        while len(self._recent) > max(1, min(RECENT, RECENT_NUMBERS // made.numbers)):
            del self._recent[next(iter(self._recent))]


def _found(name: str, text: str, run_code: bool) -> Model:
    """Returns the model of a config in the store."""
    config = from_yaml(text)
    refuse_code(vars(config), f"the model '{name}' in the store", run_code)
    return Model(name, config)
