"""Runs the example in Flower on this machine, on loopback, and prints what came of it.

    python run.py simulation FOLDER                  100 simulated nodes, one report each
    python run.py deployment FOLDER --reports-per-node 50 --limit 50
                                                     a SuperLink and two SuperNodes with their owners' processes

Nothing is written outside FOLDER. A deployment is insecure here (no TLS between SuperNode and SuperLink), because it is on loopback.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
CONNECTION = '[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{}"\ninsecure = true\n'
CREATE = "import sys; from pgc.device import Device; Device.create(sys.argv[1], float(sys.argv[3]), device_id=sys.argv[2])"


@contextlib.contextmanager
def process(*command, environment, log):
    """A process that is ended with the context."""
    with open(log, "ab") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def environment(home):
    """Keeps Flower, Ray and pgc's marks inside one folder, and telemetry off."""
    return os.environ | {
        "HOME": str(home),
        "FLWR_HOME": str(home),
        "PGC_STATE": str(home / "marks"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def wait_for(address, seconds=120):
    """Waits until something answers HTTP at an address."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://{address}/health", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(address)


def run(
    kind,
    folder,
    *,
    app=HERE / "app",
    port=18700,
    nodes=None,
    limit=1.0,
    slot=0.0,
    owner=True,
    create=True,
    **settings,
):
    """Runs the app, and returns what its server wrote. Without `owner`, SuperNodes run Flower's own executor."""
    folder = Path(folder).resolve()
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{port}"
    (home / "config.toml").write_text(CONNECTION.format(address))
    (home / "ray_bootstrap_config.yaml").write_text("{}")
    env = environment(home)
    nodes = nodes or (100 if kind == "simulation" else 2)
    settings = {"folder": str(folder), "slot": slot, "limit": limit, **settings}
    link = [
        "flower-superlink",
        "--insecure",
        "--port",
        str(port),
        "--disable-runtime-dependency-installation",
    ]
    command = ["flwr", "run", str(app), "--stream", "--run-config"]
    command.append(" ".join(f"{name}={json.dumps(value)}" for name, value in settings.items()))
    if kind == "simulation":
        link.append("--simulation")
        command += [
            "--federation-config",
            f"num-supernodes={nodes} client-resources-num-cpus=1 init-args-num-cpus=2",
        ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(process(*link, environment=env, log=folder / "superlink.log"))
        wait_for(address)
        if kind == "deployment":
            for node in range(nodes):
                start_node(
                    stack, folder, address, port + 1 + node, node, limit, slot, owner, create
                )
        begun = time.monotonic()
        with open(folder / "run.log", "ab") as out:
            subprocess.run(command, env=env, stdout=out, stderr=out, check=True, timeout=900)
        seconds = time.monotonic() - begun
    return json.loads((folder / "result.json").read_text()) | {"seconds": round(seconds, 1)}


def start_node(stack, folder, superlink, port, node, limit, slot, owner, create):
    """Starts a SuperNode and, beside it, its owner's process."""
    own, at = folder / f"node{node}", f"127.0.0.1:{port}"
    own.mkdir(exist_ok=True)
    (own / "secret").write_text(os.urandom(32).hex())
    env = environment(own) | {"HOSTILE_MARKER": str(own / "ran")}
    more = ["--superexec-auth-secret-file", str(own / "secret")] if owner else []
    more += ["--isolation", "process"] if owner else []
    supernode = [
        "flower-supernode",
        "--insecure",
        "--superlink",
        superlink,
        "--port",
        str(port),
        "--node-config",
        f"partition-id={node}",
    ]
    stack.enter_context(
        process(*supernode, *more, environment=env, log=folder / f"supernode{node}.log")
    )
    if owner:
        ledger, name = folder / f"ledger{node}.db", f"node {node}"
        if create:
            subprocess.run(
                [sys.executable, "-c", CREATE, str(ledger), name, str(limit)], env=env, check=True
            )
        wait_for(at)
        mine = [
            sys.executable,
            str(HERE / "owner.py"),
            at,
            str(ledger),
            name,
            "--home",
            str(node),
            "--slot",
            str(slot),
        ]
        stack.enter_context(
            process(
                *mine,
                "--secret",
                str(own / "secret"),
                environment=env,
                log=folder / f"owner{node}.log",
            )
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("simulation", "deployment"))
    parser.add_argument("folder")
    parser.add_argument("--reports", type=int, default=100)
    parser.add_argument("--reports-per-node", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1.0, help="ε of each node's ledger")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    settings = {
        "reports": args.reports,
        "reports-per-node": args.reports_per_node,
        "seed": args.seed,
    }
    print(json.dumps(run(args.kind, args.folder, limit=args.limit, **settings)))


if __name__ == "__main__":
    main()
