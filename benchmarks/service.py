"""Whole cycles a second through the service: 200 connections fetch an offer and send a report, over TLS, each on the disk.

    python benchmarks/service.py [--seconds 60] [--connections 200] [--postgresql] [--join 20] [--flower PYTHON]

The service runs in a process of its own (`pgc serve`, every report synchronised before it is acknowledged); the load comes from
this one, on the same cores: connections that send prepared reports, that is payloads that `pgc.device` drew before, under the
number of the offer. `--postgresql` does the same with a PostgreSQL that the wheel pgserver brings. `--join K` adds real devices:
`pgc join --devices K`, which play, randomise and charge their ledgers. `--flower` adds Flower's reports a second (benchmarks/
flower.py), run by a Python that has flwr. Prints JSON: cycles/s, latencies of a request, memory of the service, and what a cycle
costs: CPU of the service, bytes on the network (all of loopback: run nothing else there), bytes of the store (SQLite's; versions
of θ included).
"""

import argparse
import asyncio
import contextlib
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from pgc.randomise.report import draw_report
from pgc.service import keeper
from pgc.service.database import Database, sqlite_url
from pgc.wire import Offer
from pgc.wire.report import HEAD_SIZE, REPORT_V1

FULL = 10**6


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return (
        int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
        / 1024
    )


def cpu_seconds(pid: int) -> float:
    """Of one process, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loopback_bytes() -> int:
    """All that went over loopback, in both directions, TCP's and TLS's own included."""
    line = next(
        line
        for line in Path("/proc/net/dev").read_text().splitlines()
        if line.strip().startswith("lo:")
    )
    return int(line.split(":")[1].split()[0])


def stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("store.db*"))


class Connection:
    """A kept-alive HTTP/1.1 connection: no more than the load needs, so that the load is not what is measured."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self._reader, self._writer = reader, writer
        self._head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: "

    async def post(self, path: str, body: bytes = b"") -> tuple[int, bytes]:
        self._writer.write(
            f"POST {path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n".encode() + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        return int(head[9:12]), await self._reader.readexactly(length)


async def device(
    url: httpx.URL, context: ssl.SSLContext, token: str, until: float, seen: dict[str, list[float]]
) -> None:
    """One connection: cycle after cycle, with a token that is good for many."""
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
    connection, payloads, n = Connection(reader, writer, token), [], 0
    while time.monotonic() < until:
        begun = time.monotonic()
        status, data = await connection.post("/v1/models/default/offers")
        fetched = time.monotonic()
        if status == 429:
            seen["busy"].append(fetched)
            await asyncio.sleep(1)
            continue
        assert status == 200, data
        if len(payloads) < 4:
            offer = Offer.decode(data)
            payloads.append(
                draw_report(offer, np.random.default_rng().standard_normal(offer.query.dim), None)[
                    HEAD_SIZE:
                ]
            )
        report = (
            bytes([REPORT_V1]) + data[1:13] + payloads[n % len(payloads)]
        )  # the offer's number and version, then a payload
        sent = time.monotonic()
        status, data = await connection.post("/v1/models/default/reports", report)
        assert status == 200, data
        ended = time.monotonic()
        seen["taken"] += [fetched - begun, ended - sent]
        seen["ends"].append(ended)
        n += 1
    writer.close()


async def load(
    url: str, ca: Path, tokens: list[str], seconds: float, seen: dict[str, list[float]]
) -> None:
    context = ssl.create_default_context(cafile=str(ca))
    until = time.monotonic() + seconds
    await asyncio.gather(*(device(httpx.URL(url), context, token, until, seen) for token in tokens))


@contextlib.contextmanager
def service(folder: Path, port: int, database: str | None):
    """`pgc serve`, ready. Its process."""
    command = [
        sys.executable,
        "-m",
        "pgc.cli",
        "serve",
        str(folder),
        "--port",
        str(port),
        "--dev-tls",
    ]
    environment = os.environ | ({} if database is None else {"PGC_STORE": database})
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        while True:
            try:
                if httpx.get(f"https://127.0.0.1:{port}/ready", verify=False).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.2)
        yield server
    finally:
        server.terminate()
        server.wait()


def measure(place: Path, args: argparse.Namespace, database: str | None) -> dict[str, float]:
    """Prepared reports, from this process."""
    folder, url = place / "service", f"https://127.0.0.1:{args.port}"
    with service(folder, args.port, database) as server:
        with contextlib.closing(Database(database or sqlite_url(folder / "store.db"))) as store:
            tokens = keeper.issue_tokens(store, args.connections, FULL)
        seen: dict[str, list[float]] = {"taken": [], "ends": [], "busy": []}
        run = asyncio.run
        with contextlib.suppress(ImportError):
            import uvloop

            run = uvloop.run
        run(load(url, folder / "ca.pem", tokens, 3, seen))  # what is allocated once
        before, seen = memory_mb(server.pid), {"taken": [], "ends": [], "busy": []}
        begun, cpu, network, stored = (
            time.monotonic(),
            cpu_seconds(server.pid),
            loopback_bytes(),
            stored_bytes(folder),
        )
        run(load(url, folder / "ca.pem", tokens, args.seconds, seen))
        seconds, cycles = time.monotonic() - begun, len(seen["ends"])
        each = {
            "server_cpu_ms_per_cycle": 1e3 * (cpu_seconds(server.pid) - cpu) / cycles,
            "network_bytes_per_cycle": (loopback_bytes() - network) / cycles,
            "stored_bytes_per_cycle": (stored_bytes(folder) - stored) / cycles,
        }
        card = httpx.get(f"{url}/v1/models/default", verify=False).json()
        after = memory_mb(server.pid)
    thirds = np.histogram(np.array(seen["ends"]) - begun, 3, (0, args.seconds))[0] / (
        args.seconds / 3
    )
    return {
        "connections": args.connections,
        "seconds": seconds,
        "cycles_per_second": len(seen["ends"]) / seconds,
        "slowest_third_per_second": float(thirds.min()),
        "request_p50_ms": 1000 * statistics.median(seen["taken"]),
        "request_p99_ms": 1000 * float(np.quantile(seen["taken"], 0.99)),
        "answered_429": len(seen["busy"]),
        "received": card["received"],
        "version": card["version"],
        "memory_before_mb": before,
        "memory_after_mb": after,
        **each,
    }


def join(place: Path, args: argparse.Namespace) -> dict[str, float]:
    """Real devices: `pgc join`, which plays, randomises, charges ledgers and reports, T reports for each of K devices."""
    folder, url, each = place / "service", f"https://127.0.0.1:{args.port}", 200
    with service(folder, args.port, None):
        with contextlib.closing(Database(sqlite_url(folder / "store.db"))) as store:
            (place / "tokens").write_text("\n".join(keeper.issue_tokens(store, args.join, each)))
        command = [
            sys.executable,
            "-m",
            "pgc.cli",
            "join",
            url,
            "--tokens",
            str(place / "tokens"),
            "--limit",
            "1000",
            "--json",
        ]
        command += [
            "--new-ledger",
            "--ledger",
            str(place / "ledgers"),
            "--ca",
            str(folder / "ca.pem"),
            "--at-once",
            str(args.join),
        ]
        devices, seen = subprocess.Popen(command, stdout=subprocess.DEVNULL), []
        while devices.poll() is None:
            seen.append(
                (
                    time.monotonic(),
                    httpx.get(f"{url}/v1/models/default", verify=False).json()["received"],
                )
            )
            time.sleep(0.2)
        assert devices.returncode == 0
    first = next(
        pair for pair in seen if pair[1] > args.join
    )  # what is compiled first is not counted
    last = next(pair for pair in seen if pair[1] == seen[-1][1])
    return {
        "devices": args.join,
        "reports": last[1],
        "reports_per_second": (last[1] - first[1]) / (last[0] - first[0]),
    }


def flower(python: str, *more: str) -> dict[str, float]:
    """Flower's, from a process of its own."""
    script = str(Path(__file__).with_name("flower.py"))
    said = subprocess.run(
        [python, script, *more], capture_output=True, text=True, check=True
    ).stdout
    return json.loads(said)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--port", type=int, default=18443)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--join", type=int, default=0)
    parser.add_argument("--flower", metavar="PYTHON")
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as place:
        results["sqlite"] = measure(Path(place), args, None)
    if args.postgresql:
        import pgserver

        with tempfile.TemporaryDirectory() as place:
            server = pgserver.get_server(Path(place) / "postgresql")
            results["postgresql"] = measure(Path(place), args, server.get_uri())
            server.cleanup()
    if args.join:
        with tempfile.TemporaryDirectory() as place:
            results["join"] = join(Path(place), args)
    if args.flower:
        results["flower, deployment"] = flower(args.flower, "--deployment")
        results["flower, simulation"] = flower(args.flower)
        for name in ("flower, deployment", "flower, simulation"):
            ratio = results["sqlite"]["cycles_per_second"] / results[name]["reports_per_second"]
            results[name]["times_as_fast_is_sqlite"] = ratio
    rounded = {
        name: {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
        for name, found in results.items()
    }
    print(json.dumps(rounded, indent=1))


if __name__ == "__main__":
    main()
