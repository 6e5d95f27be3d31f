"""Traces go where OpenTelemetry's variables say, and hold nothing that tells who reported."""

import http.server
import threading

import httpx
import pytest

from pgc.cli.main import main
from pgc.device.device import Device
from pgc.service.client import ServiceClient
from pgc.wire import Offer
from tests.service.test_service import free_port, start
from tests.waiting import wait_for

pytest.importorskip("opentelemetry.sdk", reason="pip install 'pgc[traces]'")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'pgc[traces]'")


@pytest.fixture
def collector():
    """A real receiver of OTLP over HTTP; what it got, as bytes, and as spans by name."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got: list[bytes] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def spans():
        return {
            span.name: {a.key: a.value.string_value or a.value.int_value for a in span.attributes}
            for data in list(got)
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    yield f"http://127.0.0.1:{server.server_port}", got, spans
    server.shutdown()
    server.server_close()


def test_requests_commits_and_updates_are_traced(collector, tmp_path, monkeypatch, capsys):
    where, got, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", where)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    port, folder = free_port(), tmp_path / "service"
    server = start(folder, port, None, "--traces")
    try:
        main(["tokens", "issue", str(folder), "--submissions", "20"])
        [token] = capsys.readouterr().out.split()
        device = Device.create(tmp_path / "ledger.db", 20.0)
        with ServiceClient(
            f"https://127.0.0.1:{port}", token, ca=str(folder / "ca.pem")
        ) as service:
            for _ in range(10):  # a buffer of the default preset
                offer = Offer.decode(service.offer())
                assert service.submit(device.release(offer, offer.theta)) == "accepted"
        httpx.get(
            f"https://127.0.0.1:{port}/health",
            verify=False,
            headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"},
        )
        wait_for(
            lambda: {"offers", "reports", "commit", "update", "score", "health"} <= set(spans()),
            "a span of each kind",
        )
    finally:
        server.terminate()
        assert server.wait() == 0
    seen = spans()
    assert seen["reports"]["pgc.status"] == 200 and seen["commit"]["pgc.requests"] >= 1
    assert seen["update"]["pgc.model"] == "default" and seen["update"]["pgc.version"] >= 0
    sent = b"".join(got)
    assert token.encode() not in sent and b"127.0.0.1" not in sent and b"a" * 32 not in sent
    assert bytes.fromhex("aa" * 16) not in sent  # a stranger's trace is not continued
