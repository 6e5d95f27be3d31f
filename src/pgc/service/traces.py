"""Traces for OpenTelemetry: what a request, a commit and an update took, one by one.

They are off unless the operator asks for them, because a trace of a request says to the millisecond
when a device came, which the service itself never writes down. A trace has no token, address, offer
or payload. Where they go, and how many of them, is said by OpenTelemetry's own variables in the
environment (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, …). What a device sends about traces
is ignored, so strangers cannot switch any on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pgc import __version__
from pgc.errors import require

END_SECONDS = 1.0
"""How long the end of a process waits for the last traces to be taken."""
_tracer: Any = None


def start_traces(role: str) -> Callable[[], None]:
    """Begins to send traces of this process; returns a function that sends the rest and ends.

    `role` is what this process does: serve, or update.
    """
    global _tracer
    require("opentelemetry.sdk", "traces")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    about = {"service.name": "pgc", "service.version": __version__, "pgc.role": role}
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("pgc")

    def end() -> None:
        global _tracer
        _tracer = None
        sending = threading.Thread(target=provider.shutdown, daemon=True)
        sending.start()
        sending.join(END_SECONDS)

    return end


@contextlib.contextmanager
def traced(name: str, **about: str | int) -> Iterator[Callable[[str, str | int], None]]:
    """Traces what happens inside; yields a function that adds a fact. Without traces it does
    nothing.
    """
    if _tracer is None:
        yield lambda key, value: None
        return
    attributes = {f"pgc.{key}": value for key, value in about.items()}
    # the text of an error can hold what was written: a token's hash, or a payload
    silent = {"record_exception": False, "set_status_on_exception": False}
    with _tracer.start_as_current_span(name, attributes=attributes, **silent) as span:
        yield lambda key, value: span.set_attribute(f"pgc.{key}", value)
