"""What Prometheus reads: of this front end, and of the store as the last look saw it (`watch.py`).

Labels are short words of fixed lists, models' names apart: strangers cannot make up new ones.
"""

from __future__ import annotations

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
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from pgc import __version__
from pgc.service.keeper import Keeper
from pgc.service.watch import Watch

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]
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
        self._public: dict[str, tuple[float, float | None]] = {}
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        watch.latency, watch.staleness = self.latency, self.staleness
        keeper.answered = self.stale

    def took(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer to a request of this route."""
        self._latency.labels(route, str(status)).observe(seconds)

    def stale(self, model: str, versions: int) -> None:
        """Counts an accepted report, made from a version so many versions old."""
        self._staleness.labels(model).observe(versions)

    def text(self) -> bytes:
        """Returns all of it in Prometheus's text format."""
        return generate_latest(self.registry)

    def latency(self) -> dict[str, float]:
        """Returns bounds of the median and the 99th percentile of answers to devices in the last
        minutes; nothing if there were none.
        """
        now, summed = time.monotonic(), self._answers()
        while len(self._past) > 1 and self._past[1][0] < now - LATELY:
            self._past.popleft()
        if not self._past or now > self._past[-1][0] + LATELY / 20:
            self._past.append((now, summed))
        lately = [n - before for n, before in zip(summed, self._past[0][1], strict=True)]
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
        keeper, seen = self._keeper, self._watch.seen
        updater = seen.updater
        yield InfoMetricFamily("pgc_build", "The version of pgc.", value={"version": __version__})
        requests = CounterMetricFamily(
            "pgc_requests",
            "Requests for offers, and reports, by result, at this front end.",
            labels=("what", "result"),
        )
        for (what, result), n in sorted(keeper.counts.items()):
            requests.add_metric((what, result.replace(" ", "_").replace("'", "")), n)
        yield requests
        gauges: dict[str, tuple[str, float]] = {
            "waiting": ("Requests that wait to be written.", keeper.waiting),
            "store_bytes": ("Size of the store.", seen.store_bytes),
            "open_offers": ("Offers open, or expired less than a day ago.", seen.open_offers),
            "tokens_usable": ("Tokens that can still be used.", seen.tokens.usable),
            "tokens_reports_left": ("Reports that tokens are left for.", seen.tokens.reports_left),
            "front_ends": ("Front ends that were alive lately.", 1 + len(seen.others)),
            "updater_alive": ("Whether any process that updates was alive lately.", bool(updater)),
            "updates_here": (
                "Whether θ is updated beside this front end.",
                updater == self._watch.where,
            ),
            "ready": ("Whether this front end is ready.", not self._watch.not_ready()),
        }
        for name, (words, value) in gauges.items():
            yield GaugeMetricFamily(f"pgc_{name}", words, float(value))
        yield CounterMetricFamily(
            "pgc_store_failures", "Looks at the store that failed.", seen.failures
        )
        if self.expires_at is not None:
            yield GaugeMetricFamily(
                "pgc_certificate_expiry_seconds",
                "Seconds until the certificate expires.",
                self.expires_at - time.time(),
            )
        yield from self._of_models()

    def _of_models(self) -> Iterator[Metric]:
        keeper, points = self._keeper, self._watch.seen.points
        for name, words in (
            ("version", "The newest version of θ."),
            ("received", "Reports that were accepted, at all front ends."),
            ("unapplied", "Accepted reports that are in no version yet."),
            ("update_age_seconds", "Seconds since this front end saw a new version."),
            ("stuck_seconds", "For how long enough reports for a new version have waited for one."),
            ("score", "Greedy score of the averaged policy in the usual world."),
        ):
            gauge = GaugeMetricFamily(f"pgc_model_{name}", words, labels=("model",))
            for model, handed in list(keeper.models.items()):
                progress, known = keeper.progress(model), points.get(model)
                value = {
                    "version": handed.version,
                    "received": progress.accepted,
                    "unapplied": progress.unapplied,
                    "update_age_seconds": time.monotonic() - handed.seen_at,
                    "stuck_seconds": keeper.follower.stuck_seconds(model),
                    "score": known[-1].score if known else None,
                }[name]
                if value is not None:
                    gauge.add_metric((model,), float(value))
            yield gauge
