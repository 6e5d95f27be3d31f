"""Client results ("reports") a second that Flower collects, with its defaults and four nodes: the comparison for service.py.

    python benchmarks/flower.py [--nodes 4] [--rounds 200] [--dim 112] [--deployment] [--train-only] [--port 18600]

A Python that has `flwr[simulation]` runs it; pgc is not needed. A client gets DIM float32 and sends DIM float32 back, without
training, so that Flower's machinery is what is measured. The app goes the way that Flower recommends: `flwr run`, to a SuperLink
on loopback. Without options that is the simulation runtime on its default backend (Ray); `--deployment` starts real SuperNodes
instead, each a process that starts a ClientApp process for each message, without TLS (and 5 rounds where --rounds is not given).

The strategy is FedAvg as it comes, except that every round takes all nodes. So it evaluates too: after each training every node
is asked a second time. Those answers carry no vector and are not counted, but their time is; `--train-only` leaves them out.
Counted are the training results that came without an error, from the end of the aggregation of a first round, which is not
counted because processes start in it, to the end of the aggregation of the last. With four nodes most of that time is waiting:
Flower asks for results every 0.1 s in the simulation and every 3 s in a deployment. Prints one JSON object; logs go to stderr.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import flwr
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

# What Flower is handed is this file under the name app.py; `--run-config` fills in the values.
PROJECT = """
[project]
name = "reports"
version = "1.0.0"
description = "Reports a second"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "pgc"

[tool.flwr.app.components]
serverapp = "app:server"
clientapp = "app:client"

[tool.flwr.app.config]
nodes = 0
rounds = 0
dim = 0
train-only = false
result = ""
"""
CONNECTION = """
[superlink]
default = "here"

[superlink.here]
address = "{address}"
insecure = true
"""

server = ServerApp()
client = ClientApp()


class Timed(FedAvg):
    """FedAvg that notes when each round was aggregated, and of how many results."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.ends: list[float] = []
        self.counts: list[int] = []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        aggregated = super().aggregate_train(server_round, replies)
        self.ends.append(time.monotonic())
        self.counts.append(sum(reply.has_content() for reply in replies))
        return aggregated


@client.train()
def train(message: Message, context: Context) -> Message:
    (parameters,) = message.content["arrays"].to_numpy_ndarrays()
    gradient = np.random.default_rng().standard_normal(parameters.shape, np.float32)
    metrics = MetricRecord({"num-examples": 1})  # FedAvg weighs by it
    return Message(
        RecordDict({"arrays": ArrayRecord([gradient]), "metrics": metrics}), reply_to=message
    )


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)


@server.main()
def collect(grid: Grid, context: Context) -> None:
    config = context.run_config
    nodes = config["nodes"]
    # Without the minimum, a round that begins while nodes still connect would do with those that are there.
    strategy = Timed(
        fraction_evaluate=float(not config["train-only"]),
        min_train_nodes=nodes,
        min_evaluate_nodes=nodes,
    )
    strategy.start(
        grid, ArrayRecord([np.zeros(config["dim"], np.float32)]), num_rounds=config["rounds"] + 1
    )
    seconds, reports = strategy.ends[-1] - strategy.ends[0], sum(strategy.counts[1:])
    assert reports == nodes * config["rounds"], strategy.counts
    found = {
        "reports": reports,
        "seconds": round(seconds, 3),
        "reports_per_second": round(reports / seconds, 3),
    }
    Path(config["result"]).write_text(json.dumps(found))


@contextlib.contextmanager
def process(*command: str, environment: dict[str, str]):
    """A command of Flower that runs until it is told to end. Its output is log."""
    running = subprocess.Popen(command, stdout=sys.stderr, env=environment)
    try:
        yield running
    finally:
        running.terminate()
        running.wait()


def measure(place: Path, args: argparse.Namespace) -> dict[str, float]:
    app, home, result, address = (
        place / "app",
        place / "home",
        place / "result.json",
        f"127.0.0.1:{args.port}",
    )
    for folder in (app, home):
        folder.mkdir()
    shutil.copy(__file__, app / "app.py")
    (app / "pyproject.toml").write_text(PROJECT)
    (home / "config.toml").write_text(CONNECTION.format(address=address))
    # Where it finds no such file in the home, Ray asks the metadata services of clouds, even with its statistics switched off.
    (home / "ray_bootstrap_config.yaml").write_text("{}")
    environment = (
        os.environ
        | {
            "HOME": str(home),
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on every system: no cluster, so Ray stays on loopback
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # Flower starts its own commands by name
        }
    )
    settings = {
        "nodes": args.nodes,
        "rounds": args.rounds,
        "dim": args.dim,
        "train-only": args.train_only,
        "result": str(result),
    }
    # A JSON number, string or truth value is one of TOML too, which is what Flower reads here.
    command = [
        "flwr",
        "run",
        str(app),
        "--stream",
        "--run-config",
        " ".join(f"{k}={json.dumps(v)}" for k, v in settings.items()),
    ]
    # By default the SuperLink would fetch the dependencies of an app from the network; this app has none.
    superlink = [
        "flower-superlink",
        "--insecure",
        "--port",
        str(args.port),
        "--disable-runtime-dependency-installation",
    ]
    if not args.deployment:
        superlink.append("--simulation")
        command += ["--federation-config", f"num-supernodes={args.nodes}"]
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(process(*superlink, environment=environment))
        while link.poll() is None:
            try:
                urllib.request.urlopen(f"http://{address}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        for number in range(args.nodes if args.deployment else 0):
            node = [
                "flower-supernode",
                "--insecure",
                "--superlink",
                address,
                "--port",
                str(args.port + 1 + number),
            ]
            stack.enter_context(process(*node, environment=environment))
        subprocess.run(
            command, stdout=sys.stderr, env=environment, check=True
        )  # streams the app's log, and returns when it ends
        return json.loads(result.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--dim", type=int, default=112)
    parser.add_argument("--deployment", action="store_true")
    parser.add_argument("--train-only", action="store_true")
    parser.add_argument("--port", type=int, default=18600)
    args = parser.parse_args()
    if args.rounds is None:
        args.rounds = 5 if args.deployment else 200
    with tempfile.TemporaryDirectory() as place:
        found = measure(Path(place), args)
    print(
        json.dumps(
            {"flwr_version": flwr.__version__, "nodes": args.nodes, "rounds": args.rounds} | found
        )
    )


if __name__ == "__main__":
    main()
