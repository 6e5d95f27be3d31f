"""Whole cycles a second through the service: 200 connections fetch an offer and send a report, over TLS, each on the disk.

    python benchmarks/service.py [--seconds 60] [--connections 200]

The service runs in a process of its own (`pgc serve`, SQLite, every report synchronised before it is acknowledged); the load
comes from this one, on the same cores. Reports are drawn by `pgc.device.device.draw_report`, without a ledger. Prints JSON:
cycles/s, latencies of a request, memory of the service.
"""

import argparse
import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from pgc.device.device import draw_report
from pgc.service import store
from pgc.wire import Offer


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


async def device(client: httpx.AsyncClient, token: str, until: float, taken: list[float]) -> int:
    """One connection: cycle after cycle, with a token that is good for many."""
    headers, rng, done = {"authorization": f"Bearer {token}"}, np.random.default_rng(), 0
    while time.monotonic() < until:
        begun = time.monotonic()
        answer = await client.post("/v1/models/default/offers", headers=headers)
        fetched = time.monotonic()
        if answer.status_code == 429:
            await asyncio.sleep(float(answer.headers["retry-after"]))
            continue
        offer = Offer.decode(answer.content)
        report = draw_report(offer, rng.standard_normal(offer.query.dim), None)
        sent = time.monotonic()
        answer = await client.post("/v1/models/default/reports", headers=headers, content=report)
        assert answer.status_code == 200, answer.text
        taken += [fetched - begun, time.monotonic() - sent]
        done += 1
    return done


async def load(url: str, ca: Path, tokens: list[str], seconds: float, taken: list[float]) -> int:
    limits = httpx.Limits(max_connections=len(tokens), max_keepalive_connections=len(tokens))
    context = ssl.create_default_context(cafile=str(ca))
    async with httpx.AsyncClient(base_url=url, verify=context, limits=limits, timeout=60) as client:
        until = time.monotonic() + seconds
        return sum(await asyncio.gather(*(device(client, token, until, taken) for token in tokens)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--port", type=int, default=18443)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, url = Path(place) / "service", f"https://127.0.0.1:{args.port}"
        command = [sys.executable, "-m", "pgc.cli", "serve", str(folder), "--port", str(args.port), "--dev-tls"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while True:
                try:
                    if httpx.get(f"{url}/ready", verify=False).status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.2)
            tokens = [f"token-{n}" for n in range(args.connections)]
            with store.connect(store.sqlite_url(folder / "store.db")).begin() as db:
                store.issue_tokens(db, [store.hash_token(t) for t in tokens], 10**6)
            before, taken = memory_mb(server.pid), []
            begun = time.monotonic()
            cycles = asyncio.run(load(url, folder / "ca.pem", tokens, args.seconds, taken))
            seconds = time.monotonic() - begun
            card = httpx.get(f"{url}/v1/models/default", verify=False).json()
            after = memory_mb(server.pid)
        finally:
            server.terminate()
            server.wait()
    result = {
        "connections": args.connections,
        "seconds": seconds,
        "cycles": cycles,
        "cycles_per_second": cycles / seconds,
        "request_p50_ms": 1000 * statistics.median(taken),
        "request_p99_ms": 1000 * float(np.quantile(taken, 0.99)),
        "received": card["received"],
        "version": card["version"],
        "memory_before_mb": before,
        "memory_after_mb": after,
    }
    print(json.dumps({k: round(v, 3) for k, v in result.items()}, indent=1))


if __name__ == "__main__":
    main()
