"""`pgc provision`: gives a device its one ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.device.ledger import Ledger
from pgc.device.marker import Marker, device_hash
from pgc.randomise.budget import NANO, epsilon_text


@dataclass(frozen=True)
class Provision:
    """Give a device its ledger, once, when it is installed. The ledger limits the ε of everything
    that the device will ever send.

    A small file, the device's mark, is left in the system's state folder. As long as it exists, no
    second ledger is made for the device, even if the first one was lost.
    """

    ledger: Positional[Path]
    """The file to make."""
    limit: float
    """ε, the lifetime limit of this device, whatever a service asks for."""
    device_id: str
    """A name that this device alone has and keeps, such as its serial number."""
    json: Json = False


def provision(given: list[str]) -> int:
    """Runs `pgc provision` with the given flags."""
    args = parse(Provision, "provision", given)
    args.ledger.parent.mkdir(parents=True, exist_ok=True)
    ledger = Ledger.create(args.ledger, args.limit, device_id=args.device_id)
    limit = ledger.balance.most
    ledger.close()
    mark = Marker.of(device_hash(args.device_id)).path
    if args.json:
        return print_json({"ledger": str(args.ledger), "limit": limit / NANO, "mark": str(mark)})
    print(f"{args.ledger} is this device's ledger, with {epsilon_text(limit)} for life.")
    print(f"{mark} outlives it. Keep both out of backups.")
    return 0
