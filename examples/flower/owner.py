"""What the owner of a SuperNode runs beside it: it answers offers from the owner's own ledger.

    flower-supernode --superlink HOST:PORT --isolation process --port 9094 --superexec-auth-secret-file secret …
    python owner.py 127.0.0.1:9094 ledger.db serial-7 --secret secret

The ledger was made once: `pgc provision ledger.db --limit 1 --device-id serial-7`. The world is the owner's own file, and none that
an app brings.
"""

import argparse
import sys
from pathlib import Path

from pgc.device import Device
from pgc.flower.client import private_app
from pgc.flower.node import serve

sys.path.insert(0, str(Path(__file__).parent / "app"))
from worlds import player


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address", help="the SuperNode's --port, on this machine")
    parser.add_argument("ledger")
    parser.add_argument("device_id")
    parser.add_argument(
        "--home", type=int, default=0, help="which of the example's worlds this home is"
    )
    parser.add_argument(
        "--slot", type=float, default=30.0, help="seconds from an offer to its answer"
    )
    parser.add_argument("--secret", type=Path, help="the SuperNode's --superexec-auth-secret-file")
    args = parser.parse_args()
    device = Device.open(
        args.ledger, device_id=args.device_id, player=player(args.home), slot_seconds=args.slot
    )
    secret = None if args.secret is None else args.secret.read_bytes()
    serve(args.address, private_app(lambda context: device), secret=secret)


if __name__ == "__main__":
    main()
