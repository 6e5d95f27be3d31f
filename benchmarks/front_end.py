"""How much a front end takes: seconds until it is ready and until it has stopped, memory, and CPU when nothing happens.

    python benchmarks/front_end.py --rounds 5 --idle 30

Each round starts `pgc serve` on a store with one model, waits until /ready says 200, leaves it alone, looks again, and
stops it with SIGTERM. As a peer, the same round measures how long `import jax` takes alone, which every front end did
before the process that updates was apart.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from pgc.config import configure
from pgc.service.creating import create_at
from pgc.service.database import sqlite_url

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """CPU time of a process so far, from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid):
    """Resident memory of a process, in MB."""
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) / 1000


def one_round(folder, port, idle):
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
    begun = time.perf_counter()
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stderr=log, stdout=log)
    try:
        while True:
            try:
                if httpx.get(f"https://127.0.0.1:{port}/ready", verify=False).status_code == 200:
                    break
            except httpx.TransportError:
                if server.poll() is not None:
                    raise RuntimeError((folder / "log").read_text()) from None
            time.sleep(0.02)
        ready = time.perf_counter() - begun
        told = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(server.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        updater = int(told.stdout.split()[0])
        time.sleep(15)  # the process that updates compiles
        before, beside = cpu_seconds(server.pid), cpu_seconds(updater)
        time.sleep(idle)
        found = {
            "ready_seconds": ready,
            "front_end_mb": memory(server.pid),
            "updater_mb": memory(updater),
            "front_end_idle_cpu_percent": 100 * (cpu_seconds(server.pid) - before) / idle,
            "updater_idle_cpu_percent": 100 * (cpu_seconds(updater) - beside) / idle,
        }
        begun = time.perf_counter()
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        return found | {"stop_seconds": time.perf_counter() - begun}
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def import_jax():
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import jax"], check=True)
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=30.0)
    parser.add_argument("--port", type=int, default=18473)
    args = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as place:
        create_at(sqlite_url(Path(place) / "store.db"), "default", configure(epsilon=1.0), None)
        for n in range(args.rounds):
            rounds.append(
                {"import_jax_seconds": import_jax()} | one_round(Path(place), args.port, args.idle)
            )
            print(json.dumps(rounds[n]), file=sys.stderr, flush=True)
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    medians["ready_to_import_jax"] = medians["ready_seconds"] / medians["import_jax_seconds"]
    print(json.dumps({name: round(value, 3) for name, value in medians.items()}, indent=2))


if __name__ == "__main__":
    main()
