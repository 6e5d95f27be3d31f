"""What the aggregator ships. In a simulation it also stands for the nodes' owners.

A real node whose owner runs `pgc.flower.node.serve` never imports this file.
"""

from pathlib import Path

from flwr.app import Context
from worlds import player

from pgc.device import Device
from pgc.flower.client import private_app


def device(context: Context) -> Device:
    """Returns the device of this simulated node: one ledger, and one name, for each partition."""
    config, partition = context.run_config, int(context.node_config["partition-id"])
    folder = Path(str(config["folder"])) / "nodes"
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / f"{partition}.db"
    settings = {"player": player(partition), "slot_seconds": float(config["slot"])}
    name = f"{folder.resolve()}#{partition}"
    if not ledger.exists():
        return Device.create(ledger, float(config["limit"]), device_id=name, **settings)
    return Device.open(ledger, device_id=name, **settings)


app = private_app(device)
