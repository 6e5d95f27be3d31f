"""`pgc replay`: checks a service's store by computing θ again from the accepted reports alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.cli.fields import Json, RunCode, StoreUrl
from pgc.cli.parsing import parse, print_json
from pgc.errors import require


@dataclass(frozen=True)
class Replay:
    """Check a store: compute θ again from the accepted reports, in their order, and compare every
    version that is kept.

    The exit status is 1 if a version differs.
    """

    folder: Positional[Path] = Path("service")
    """The service's folder."""
    store: StoreUrl = None
    model: str = "default"
    """The name of the model."""
    policy: Path | None = None
    """Write θ and the averaged policy after the last report to this file, as safetensors."""
    run_code: RunCode = False
    json: Json = False


def replay(given: list[str]) -> int:
    """Runs `pgc replay` with the given flags; returns 1 if a version differs."""
    require("sqlalchemy", "service")
    import numpy as np
    from safetensors.numpy import save

    from pgc.cli.stores import errors_in_one_line, open_store
    from pgc.service.replay import replay as run

    args = parse(Replay, "replay", given)
    with errors_in_one_line():
        database = open_store(args.folder, args.store)
        made = run(database, args.model, run_code=args.run_code)
        database.close()
    if args.policy is not None:
        with errors_in_one_line():
            args.policy.write_bytes(
                save(
                    {
                        "theta": np.asarray(made.state.theta),
                        "averaged": np.asarray(made.state.average),
                    }
                )
            )
    result = made._asdict() | {"same": made.differs is None}
    del result["state"]
    if args.json:
        print_json(result)
    else:
        words = (
            "the same to the bit"
            if made.differs is None
            else f"NOT the same from version {made.differs} on"
        )
        print(
            f"{made.reports} reports make {made.versions} versions; {made.compared} of them are "
            f"kept, and are {words}"
        )
    return 0 if made.differs is None else 1
