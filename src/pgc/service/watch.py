"""What a front end knows about itself and the whole service: for metrics, the live page, readiness
and the log. One thread looks now and then; nothing here waits for a request.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pgc import __version__
from pgc.errors import first_line
from pgc.service import history, store, token_store
from pgc.service.admission import Verdict
from pgc.service.keeper import BUSY, Keeper
from pgc.service.logs import OURS

log = logging.getLogger("pgc.service")
LOOK_SECONDS = 15.0
FIRST_LOOKS = 1.0, 60.0
"""Seconds between two looks while no process that updates was seen, and for how long at most."""
RESTS = 50
"""A look is followed by a pause of at least so many times the time that it took."""
LONGEST_PAUSE = 30.0
"""But never by a longer one: how the service does must stay known."""
GONE_SECONDS = 75.0
"""Seconds after which a process that says nothing counts as gone."""
STUCK_SECONDS = 60.0
"""Seconds without an update, while accepted reports wait for one, after which a front end is not
ready."""
SILENT_SECONDS = 60.0
"""Seconds after which a look that has not ended means that the store does not answer."""
NORMAL = ("issued", "accepted", "duplicate", Verdict.USED_UP.value)


@dataclass(frozen=True)
class Seen:
    """What the last look saw."""

    tokens: token_store.Tally = field(default_factory=lambda: token_store.Tally(0, 0, 0, 0, 0))
    open_offers: int = 0
    store_bytes: int = 0
    points: dict[str, list[history.Point]] = field(default_factory=dict)
    restored: dict[str, list[store.Listed]] = field(default_factory=dict)
    """Of each model, the versions that restored earlier ones."""
    others: tuple[history.Process, ...] = ()
    """The other front ends."""
    updater: str | None = None
    """Where the process that updates runs; None if there was none lately."""
    failures: int = 0
    """Looks at the store that failed since this process began."""
    at: float | None = None
    """When that was, in seconds since 1970; None before the first look."""


class Watch:
    """A thread that looks at the store as a whole, and says that this front end lives.

    Whoever asks reads what the last look saw: no request waits for the store here.
    """

    def __init__(self, keeper: Keeper, where: str = "") -> None:
        """Begins to look. `where` is the machine and address of this front end, for people."""
        self._keeper = keeper
        self.begun = time.monotonic()
        self.where = where
        self.name = f"{os.getpid()}.{secrets.token_hex(2)} {where}"[: history.NAME]
        self.seen = Seen()
        self.latency: Callable[[], dict[str, float]] = dict
        """Returns the median and the 99th percentile of answers lately, in seconds."""
        self.staleness: Callable[[str], float | None] = lambda model: None
        """Returns by how many versions accepted reports were behind, on average."""
        self.updater_pid: Callable[[], int | None] = lambda: None
        """Returns the process id of the process that updates, or stands by, beside this front
        end."""
        self.updater_starts: Callable[[], int] = lambda: 0
        """Returns how often it was started."""
        self._beats: dict[str, tuple[int, float]] = {}
        self._tried: tuple[float, str] = (-math.inf, "this front end has just started")
        """When the store was written to last, and why that failed, if it did."""
        self._stop = threading.Event()
        self._said, self._before = time.monotonic(), Counter(keeper.counts)
        self._thread = threading.Thread(target=self._run, name="pgc-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops looking, and says that this front end has gone."""
        self._stop.set()
        self._thread.join(SILENT_SECONDS)
        try:
            with self._keeper.database.writing() as db:
                history.end_beat(db, self.name)
        except Exception as error:
            log.debug("nobody was told of the end: %s", first_line(error))

    def not_ready(self) -> str:
        """Says why this front end cannot do its work; "" if it can."""
        keeper, (when, why), now = self._keeper, self._tried, time.monotonic()
        if why:
            return why
        if keeper.failed_at > when:
            return "the store cannot be written"
        if now > when + SILENT_SECONDS + LOOK_SECONDS:
            return "the store does not answer"
        if not keeper.works:
            return "a thread of this front end has ended; see its log, and start it again"
        if not keeper.models:
            return (
                "no model can be handed out yet: the process that updates is preparing it, which "
                "takes some seconds after an upgrade"
            )
        for name in list(keeper.models):
            if keeper.follower.stuck_seconds(name) > STUCK_SECONDS:
                return (
                    f"no process updates {name}: accepted reports have waited for "
                    f"{keeper.follower.stuck_seconds(name):.0f} s"
                )
        late = now > self.begun + STUCK_SECONDS + LOOK_SECONDS
        return "no process updates θ" if late and self.seen.updater is None else ""

    def counts(self) -> Counter[tuple[str, str]]:
        """Results of requests since each front end began, all of them together."""
        all_of = Counter(dict(self._keeper.counts))
        for other in self.seen.others:
            all_of.update({(what, result): n for what, result, n in other.facts["counts"]})
        return all_of

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            begun = time.monotonic()
            self.look()
            often, until = FIRST_LOOKS
            new = self.seen.updater is None and time.monotonic() < self.begun + until
            usual = often if new else LOOK_SECONDS
            took = RESTS * (time.monotonic() - begun)
            pause = usual if self._tried[1] else min(max(usual, took), LONGEST_PAUSE)

    def look(self) -> None:
        """Writes that this front end lives, and reads how the whole service does.

        The store is written to in any case: a full disk can still be read.
        """
        try:
            self._beat()
            self._tried = time.monotonic(), ""
            self._look()
            self._say()
        except Exception as error:
            if not self._tried[1]:
                log.error("could not look at the store: %s", first_line(error))
            self._tried = time.monotonic(), "the store cannot be written"
            self.seen = replace(self.seen, failures=self.seen.failures + 1)

    def _look(self) -> None:
        keeper = self._keeper
        with keeper.database.reading() as db:
            processes = history.list_processes(db)
            tokens = token_store.count_tokens(db, int(keeper.clock()))
            opened = store.count_offers(db)
            points = {name: history.list_points(db, name) for name in list(keeper.models)}
            restored = {name: store.list_restored(db, name) for name in list(keeper.models)}
        alive = [one for one in processes if self._lives(one)]
        self._beats = {one.name: self._beats[one.name] for one in processes}
        updater = next((one for one in alive if one.name == history.UPDATER), None)
        self.seen = Seen(
            tokens=tokens,
            open_offers=opened,
            store_bytes=keeper.database.size(),
            points=points,
            restored=restored,
            others=tuple(one for one in alive if one.name not in (history.UPDATER, self.name)),
            updater=None if updater is None else str(updater.facts["where"]),
            failures=self.seen.failures,
            at=keeper.clock(),
        )

    def _lives(self, process: history.Process) -> bool:
        """Whether a process said something lately, by this machine's clock alone."""
        seen_at, since = self._beats.get(process.name, (None, 0.0))
        if seen_at != process.seen_at:
            fresh = (
                abs(process.seen_at - self._keeper.clock()) < GONE_SECONDS or seen_at is not None
            )
            since = time.monotonic() if fresh else -GONE_SECONDS
            self._beats[process.name] = process.seen_at, since
        return time.monotonic() < since + GONE_SECONDS

    def _beat(self) -> None:
        facts = {
            "where": self.where,
            "pgc": __version__,
            "counts": [[*key, n] for key, n in sorted(self._keeper.counts.items())],
            "waiting": self._keeper.waiting,
            "latency": self.latency(),
        }
        with self._keeper.database.writing() as db:
            history.beat(db, history.Process(self.name, int(self._keeper.clock()), facts))

    def _say(self) -> None:
        now = Counter(dict(self._keeper.counts))
        if now != self._before:
            seconds = time.monotonic() - self._said
            for line in self._lines(now - self._before, seconds):
                log.info("%s", line, extra=OURS)
        self._before, self._said = now, time.monotonic()

    def _lines(self, counts: Counter[tuple[str, str]], seconds: float) -> list[str]:
        """Says what happened: a line for each model, and one for accepted and refused reports."""
        said = []
        for name, model in self._keeper.models.items():
            progress, points = self._keeper.progress(name), self.seen.points.get(name)
            score = points[-1].score if points else None
            words = "" if score is None else f", score {score:.0f} in the usual world"
            said.append(
                f"{name}: version {model.version}, {progress.accepted} reports "
                f"({progress.unapplied} in the buffer){words}"
            )
        refused = {
            f"{what} {why}": n for (what, why), n in counts.items() if why not in NORMAL and n > 0
        }
        words = f"{counts['reports', 'accepted']} accepted in {seconds:.0f} s"
        if refused:
            words += "; refused: " + ", ".join(f"{n} {why}" for why, n in sorted(refused.items()))
        if any(BUSY in why for why in refused):
            words += f"; {self._keeper.waiting} requests wait to be written"
        return [*said, words]
