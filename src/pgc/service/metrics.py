"""What Prometheus reads: of this front end, and of the store as the last look saw it (`watch.py`).

Labels are short words of fixed lists, models' names apart: strangers cannot make up new ones.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from pgc import __version__
from pgc.service.admission import Verdict
from pgc.service.keeper import BEHIND, BUSY, ISSUED, MALFORMED, NOT_WRITTEN, Keeper
from pgc.service.protocol import BoundedProtocol
from pgc.service.watch import Seen, Watch

disable_created_metrics()  # type: ignore[no-untyped-call] # they would double what is scraped
LATENCIES = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BOUNDS = (*LATENCIES, 60.0)
"""Upper bounds of the time of an answer, in seconds; none takes longer than the last."""
STALENESS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
PERCENTILES = {"p50": 0.5, "p99": 0.99}
LATELY = 300.0
"""Seconds over which the live page shows how long answers took."""
TOGETHER = 100
"""Reports whose staleness is made public together."""


LABELS = {
    **{verdict.value: verdict.name.lower() for verdict in Verdict},
    **{ISSUED: "issued", BEHIND: "updates_are_behind", BUSY: "too_busy"},
    **{NOT_WRITTEN: "not_written", MALFORMED: "malformed"},
}
"""The label of each result. Alerts go by these words, so they are names and not sentences."""
EITHER = (Verdict.UNKNOWN_TOKEN.value, Verdict.REVOKED.value, BUSY, NOT_WRITTEN)
RESULTS = {
    "offers": (ISSUED, Verdict.USED_UP.value, Verdict.EXPIRED.value, BEHIND, *EITHER),
    "reports": (
        *(Verdict.ACCEPTED.value, Verdict.DUPLICATE.value, Verdict.UNKNOWN_OFFER.value),
        *(Verdict.CONFLICT.value, Verdict.LATE.value, MALFORMED, *EITHER),
    ),
}
"""Every result there is: a counter that began with its first event would hide that event."""
OF_A_MODEL = {
    "version": "The newest version of θ.",
    "received": "Reports that were accepted, at all front ends.",
    "unapplied": "Accepted reports that are in no version yet.",
    "buffer_size": "Reports that make a version.",
    "update_age_seconds": "Seconds since this front end saw a new version.",
    "stuck_seconds": "Seconds for which accepted reports have waited without any being taken.",
    "score": "Mean score of the averaged policy, acting greedily in the simulated world.",
    "best_score": "The best of these scores so far.",
    "success_ratio": "Share of devices that reach Θ, by the noisy booleans.",
    "success_margin": "Two standard deviations of pgc_model_success_ratio.",
    "rollbacks": "How often the operator went back to an earlier version.",
}


class Metrics:
    """The metrics of one front end."""

    def __init__(self, keeper: Keeper, watch: Watch, expires_at: float | None = None) -> None:
        """Prepares to be asked. `expires_at` is when the certificate does, by the clock of 1970."""
        self._keeper, self._watch, self.expires_at = keeper, watch, expires_at
        self.registry = CollectorRegistry()
        self._latency = Histogram(
            "pgc_request_seconds",
            "Time to answer a request, by route and status; 429: too much waits, 503: the store "
            "fails.",
            ("route", "status"),
            buckets=LATENCIES,
            registry=self.registry,
        )
        self._staleness = Histogram(
            "pgc_report_staleness_versions",
            "How many versions were made between the offer and its report, of accepted reports.",
            ("model",),
            buckets=STALENESS,
            registry=self.registry,
        )
        self._past: deque[tuple[float, list[float]]] = deque()
        self._looking = threading.Lock()
        """Held while `_past` changes: requests and the thread that watches both look."""
        self._public: dict[str, tuple[float, float | None]] = {}
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        # without a process there is no such file in /proc, and then no metric
        pid = lambda: watch.updater_pid() or "none"
        ProcessCollector("pgc_updater", pid=pid, registry=self.registry)
        watch.latency, watch.staleness = self.latency, self.staleness
        keeper.answered = self.stale

    def took(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer to a request of this route."""
        self._latency.labels(route, str(status)).observe(seconds)

    def stale(self, model: str, versions: int) -> None:
        """Counts an accepted report, made from a version so many versions old."""
        self._staleness.labels(model).observe(versions)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Returns all of it, and its content type: of Prometheus's formats one that whoever asks
        accepts.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def latency(self) -> dict[str, float]:
        """Returns bounds of the median and the 99th percentile of answers to devices in the last
        minutes; nothing if there were none.
        """
        with self._looking:
            now, summed = time.monotonic(), self._answers()
            while len(self._past) > 1 and self._past[1][0] < now - LATELY:
                self._past.popleft()
            if not self._past or now > self._past[-1][0] + LATELY / 20:
                self._past.append((now, summed))
            first = self._past[0][1]
        lately = [n - before for n, before in zip(summed, first, strict=True)]
        return {
            name: next(b for b, n in zip(BOUNDS, lately, strict=True) if n >= share * lately[-1])
            for name, share in PERCENTILES.items()
            if lately[-1]
        }

    def _answers(self) -> list[float]:
        """Returns how many answers to devices took at most each of `BOUNDS`, since the start."""
        summed = [0.0] * len(BOUNDS)
        for metric in self._latency.collect():
            for sample in metric.samples:
                devices = sample.labels.get("route") in ("offers", "reports")
                if sample.name.endswith("_bucket") and devices:
                    at = min(float(sample.labels["le"]), BOUNDS[-1])
                    summed[BOUNDS.index(at)] += sample.value
        return summed

    def staleness(self, model: str) -> float | None:
        """Returns by how many versions accepted reports were behind, on average.

        It is public, so it changes only with every hundredth report: two values must not tell how
        old the offer of one device was.
        """
        found = {
            sample.name.rpartition("_")[2]: sample.value
            for metric in self._staleness.collect()
            for sample in metric.samples
            if sample.labels.get("model") == model and not sample.labels.get("le")
        }
        count, mean = self._public.get(model, (0.0, None))
        if found.get("count", 0.0) >= count + TOGETHER:
            count, mean = found["count"], round(found["sum"] / found["count"], 1)
            self._public[model] = count, mean
        return mean

    def collect(self) -> Iterator[Metric]:
        """Yields what is counted elsewhere, when Prometheus asks."""
        keeper, watch, seen = self._keeper, self._watch, self._watch.seen
        yield InfoMetricFamily("pgc_build", "The version of pgc.", value={"version": __version__})
        requests = CounterMetricFamily(
            "pgc_requests",
            "Requests for offers, and reports, by result, at this front end.",
            labels=("what", "result"),
        )
        counts = dict(keeper.counts)
        for what, results in RESULTS.items():
            for result in results:
                requests.add_metric((what, LABELS[result]), counts.get((what, result), 0))
        yield requests
        yield _counter(
            "store_failures",
            "Looks at the store that failed; requests that could not be written are in "
            "pgc_requests_total.",
            seen.failures,
        )
        yield _counter(
            "updater_starts",
            "How often the process that updates, or stands by, was started.",
            watch.updater_starts(),
        )
        yield _gauge("waiting", "Requests that wait to be written.", keeper.waiting)
        yield _gauge("connections", "Connections of devices.", len(BoundedProtocol.connected))
        yield _gauge("ready", "1 if this front end is ready.", not watch.not_ready())
        yield _gauge("time_seconds", "The time by this front end's clock.", keeper.clock())
        if self.expires_at is not None:
            yield _gauge(
                "certificate_expiry_seconds",
                "Seconds until the certificate expires.",
                self.expires_at - time.time(),
            )
        if seen.at is not None:
            yield from self._of_store(seen, seen.at)
        yield from self._of_models()

    def _of_store(self, seen: Seen, at: float) -> Iterator[Metric]:
        yield _gauge("store_look_timestamp_seconds", "When the store was looked at last.", at)
        yield _gauge("store_bytes", "Size of the store.", seen.store_bytes)
        yield _gauge("open_offers", "Offers that are open or just expired.", seen.open_offers)
        yield _gauge(
            "tokens_reports_left",
            "Reports that usable tokens are still good for.",
            seen.tokens.reports_left,
        )
        tokens = GaugeMetricFamily("pgc_tokens", "Tokens, by their state.", labels=("state",))
        for state in ("usable", "used_up", "revoked", "expired"):
            tokens.add_metric((state,), getattr(seen.tokens, state))
        yield tokens
        yield _gauge("front_ends", "Front ends that were alive lately.", 1 + len(seen.others))
        yield _gauge(
            "updater_alive",
            "1 if a process that updates was alive lately, anywhere.",
            seen.updater is not None,
        )
        yield _gauge(
            "updates_here",
            "1 if the process that updates θ runs beside this front end.",
            seen.updater == self._watch.where,
        )

    def _of_models(self) -> Iterator[Metric]:
        values = {name: self._of_model(name) for name in list(self._keeper.models)}
        for name, words in OF_A_MODEL.items():
            gauge = GaugeMetricFamily(f"pgc_model_{name}", words, labels=("model",))
            for model, known in values.items():
                if (value := known[name]) is not None:
                    gauge.add_metric((model,), float(value))
            yield gauge

    def _of_model(self, name: str) -> dict[str, float | None]:
        keeper, seen = self._keeper, self._watch.seen
        handed, progress = keeper.models[name], keeper.progress(name)
        points = seen.points.get(name, [])
        last = points[-1] if points else None
        scores = [point.score for point in points if point.score is not None]
        return {
            "version": handed.version,
            "received": progress.accepted,
            "unapplied": progress.unapplied,
            "buffer_size": handed.card["buffer_size"],
            "update_age_seconds": time.monotonic() - handed.seen_at,
            "stuck_seconds": keeper.follower.stuck_seconds(name),
            "score": None if last is None else last.score,
            "best_score": max(scores, default=None),
            "success_ratio": None if last is None else last.success,
            "success_margin": None if last is None else last.margin,
            "rollbacks": len(seen.restored.get(name, [])),
        }


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"pgc_{name}", words, float(value))


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(f"pgc_{name}", words, float(value))
