"""What a front end hands out: the newest version of each model, as the process that updates stored
it. Nothing here computes anything.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pgc.errors import PgcError, code_in, first_line, refuse_code
from pgc.randomise.mechanisms.registry import find_mechanism
from pgc.service import store
from pgc.service.database import Database
from pgc.service.pace import Pace
from pgc.wire import Offer, Query
from pgc.wire.offer import offer_head

log = logging.getLogger("pgc.service")
RECENT_BYTES, RECENT = 2**25, 1000
"""Versions that are held in memory to hand out again: their bytes together, and their number."""

MINUTE = 60.0


@dataclass(frozen=True, eq=False)
class Handed:
    """A model as a front end hands it out: a value that never changes.

    Version, offers and policy belong together, whatever is made meanwhile.
    """

    card: dict[str, Any]
    """What is public about the model and does not change."""
    query: Query
    """What every offer asks for."""
    version: int
    tail: bytes
    """What all offers of the version share."""
    policy: bytes
    """θ and the averaged policy, as safetensors."""
    seen_at: float = field(default_factory=time.monotonic)
    """When this front end saw the version first, by its monotonic clock."""


class Follower:
    """A thread that looks for new versions in the store."""

    def __init__(self, database: Database, *, run_code: bool = False) -> None:
        """Reads the store for the first time, and starts the thread.

        `run_code` is whether a mechanism of one's own, which a model names as MODULE:CLASS, may be
        imported.
        """
        self._database, self._run_code = database, run_code
        self._refused: set[str] = set()
        """Models that cannot be handed out here."""
        self.models: dict[str, Handed] = {}
        self._progress: dict[str, store.Progress] = {}
        self._moved: dict[str, float] = {}
        self._rates: dict[str, deque[tuple[float, int]]] = {}
        """Times, by the monotonic clock, with the number of reports then."""
        self._looked = time.monotonic()
        """When the store was read last: while it is away, nobody can know who is stuck."""
        self._recent: dict[tuple[str, int], bytes] = {}
        self._held, self._lock = 0, threading.Lock()
        self._pace, self._stop, self._turned = Pace(), False, threading.Condition()
        self._turns, self._failing = 0, False
        self._look()
        self._thread = threading.Thread(target=self._run, name="pgc-follower", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Makes the thread read the store now."""
        self._pace.hurry()

    def progress(self, name: str) -> store.Progress:
        """Returns how far a model had come at the last look at the store."""
        return self._progress[name]

    def stuck_seconds(self, name: str) -> float:
        """Returns for how long accepted reports have waited without any being taken by a process
        that updates; some seconds are usual.
        """
        return max(0.0, self._looked - self._moved[name])

    @property
    def works(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def reports_a_minute(self, name: str) -> int:
        """Returns how many reports all front ends accepted in the last minute."""
        seen = self._rates.get(name)
        if not seen:
            return 0
        (when, before), (now, accepted) = seen[0], (time.monotonic(), seen[-1][1])
        return round((accepted - before) * MINUTE / max(MINUTE, now - when))

    def wait_for_a_look(self, seconds: float = 60.0) -> None:
        """Blocks until the thread has read the store once more, starting after this call."""
        with self._turned:
            turn = self._turns + 2  # the look under way may have begun before
            while self._turns < turn:
                self.wake()
                if not self._turned.wait(seconds):
                    raise TimeoutError("nothing looks at the store")

    def at_hand(self, name: str, version: int) -> bytes | None:
        """Returns what all offers of a version share, if it is in memory."""
        newest = self.models[name]
        if version == newest.version:
            return newest.tail
        with self._lock:
            return self._recent.get((name, version))

    def tail(self, name: str, version: int) -> bytes:
        """Returns what all offers of a version that was offered share, however old it is."""
        found = self.at_hand(name, version)
        if found is None:
            with self._database.reading() as db:
                kept = store.load_offer(db, name, version)
            if kept is None:
                raise store.NotKept(f"version {version} of {name} is not kept")
            found = kept[0]
            self._remember(name, version, found)
        return found

    def close(self) -> None:
        """Stops the thread that looks, after the look under way."""
        self._stop = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop:
            try:
                self._look()
            except Exception as error:
                if not self._failing:
                    log.error("the store cannot be read: %s", first_line(error))
                self._failing = True
            else:
                if self._failing:
                    log.warning("the store can be read again")
                self._failing = False
            with self._turned:
                self._turns += 1
                self._turned.notify_all()
            self._pace.wait()

    def _look(self) -> None:
        with self._database.reading() as db:
            listed = store.overview(db)
        for name, (version, progress) in listed.items():
            before = self._progress.get(name)
            if progress != before:
                self._pace.hurry()
            if not progress.untaken or before is None or progress[1:] != before[1:]:
                self._moved[name] = time.monotonic()
            self._progress[name] = progress
            self._count(name, progress.accepted)
            known = self.models.get(name)
            if known is None or known.version != version:
                self._try(name, version)
        self._looked = time.monotonic()

    def _count(self, name: str, accepted: int) -> None:
        seen, now = self._rates.setdefault(name, deque()), time.monotonic()
        if not seen or now > seen[-1][0] + 1:
            seen.append((now, accepted))
        while len(seen) > 1 and seen[1][0] < now - MINUTE:
            seen.popleft()

    def _try(self, name: str, version: int) -> None:
        """Loads a version; a model that cannot be handed out here does not hold up the others."""
        try:
            self._load(name, version)
        except PgcError as error:
            if name not in self._refused:
                log.error("%s is not handed out: %s", name, first_line(error))
            self._refused.add(name)

    def _load(self, name: str, version: int) -> None:
        with self._database.reading() as db:
            text, kept = store.load_card(db, name), store.load_offer(db, name, version)
        known = self.models.get(name)
        if kept is None or kept[1] is None:  # a newer one was made meanwhile
            return
        tail, policy = kept
        card = json.loads(text)
        if known is None:
            self._import_mechanism(name, card)
        query = known.query if known else Offer.decode(offer_head(0, version, 0) + tail).query
        self._remember(name, version, tail)
        self.models[name] = Handed(card, query, version, tail, policy or b"")

    def _import_mechanism(self, name: str, card: dict[str, Any]) -> None:
        """Imports a model's mechanism, if it is not one of pgc's own."""
        import yaml

        config = yaml.safe_load(card["config"])
        if code_in({"mechanism": config["mechanism"]}):
            refuse_code({"mechanism": config["mechanism"]}, f"the model '{name}'", self._run_code)
            find_mechanism(config["mechanism"])

    def _remember(self, name: str, version: int, tail: bytes) -> None:
        with self._lock:
            if (name, version) not in self._recent:
                self._recent[name, version] = tail
                self._held += len(tail)
            while len(self._recent) > 1 and (
                self._held > RECENT_BYTES or len(self._recent) > RECENT
            ):
                self._held -= len(self._recent.pop(next(iter(self._recent))))
