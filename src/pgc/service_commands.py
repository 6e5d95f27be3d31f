"""`pgc serve`, `pgc tokens` and `pgc join`: real devices, a real aggregator."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from pgc.config import TrainConfig, configure, from_yaml
from pgc.errors import PgcError, require
from pgc.parsing import parse, print_json
from pgc.service import is_loopback


@dataclass(frozen=True)
class Serve:
    """Run the aggregator as a service: hand out offers, take reports, update θ. Ctrl-C ends it; started again, it goes on.

    Everything is kept in one folder. Without further flags it listens on this machine only, without TLS.
    """

    folder: Positional[Path] = Path("service")
    """Where everything is kept: store.db, and certificates if --dev-tls makes some."""
    config: Path | None = None
    """The config.yaml of a run (pgc train leaves one) for a new model; by default what pgc train does at --epsilon, --world."""
    model: str = "default"
    """The model's name. Several may live in one folder: start once with each --config; later starts serve all of them."""
    world: str = "cartpole"
    """The world of a new model, where no --config is given."""
    epsilon: float = 1.0
    """ε of one agent, for all it ever sends, of a new model, where no --config is given."""
    submissions_per_agent: int = 1
    """T of a new model, where no --config is given: how often one agent submits, at ε/T each."""
    host: str = "127.0.0.1"
    """Where to listen."""
    port: int = 8443
    """And at which port; 0 takes a free one."""
    operator_port: int | None = None
    """Also: the operator's interface (metrics, rolling back) at this port of loopback."""
    certificate: Path | None = None
    """The server's certificate (PEM), and --key its key: TLS."""
    key: Path | None = None
    """The certificate's private key (PEM)."""
    dev_tls: bool = False
    """Make an authority and a certificate, for trying things out; devices then need --ca FOLDER/ca.pem."""
    plain_text: bool = False
    """Listen without TLS on an address that others can reach. Tokens can then be read on the way."""


@dataclass(frozen=True)
class Tokens:
    """Issue or revoke the tokens with which devices may report. Printed once, stored hashed.

    pgc tokens issue FOLDER --count 10 --submissions 1    ·    pgc tokens revoke FOLDER --token TOKEN
    """

    action: Positional[str]
    """issue or revoke."""
    folder: Positional[Path] = Path("service")
    """The service's folder. The service may be running."""
    count: int = 1
    """How many to issue."""
    submissions: int = 1
    """T: how many reports each is good for."""
    token: str | None = None
    """The one to revoke."""
    json: bool = False
    """Print them as JSON and nothing else."""


@dataclass(frozen=True)
class Join:
    """Run a device against a service: play the policy in this device's world, randomise, charge the ledger, report.

    Killed at any point it can be started again with the same command: nothing is charged or counted twice.
    """

    url: Positional[str]
    """Of the service, for instance https://localhost:8443."""
    token: str
    """What admits this device (pgc tokens issue)."""
    limit: float
    """ε: the lifetime limit of this device's ledger, whatever the service asks for. Of a new ledger; a ledger keeps its own."""
    ledger: Path = Path("ledger.db")
    """This device's ledger; made if there is none."""
    new_ledger: bool = False
    """Make the ledger. Once in the life of a device: without it, a missing file is an error and not a fresh budget."""
    model: str = "default"
    """Which of the service's models."""
    ca: Path | None = None
    """The certificate of the authority to trust, if it is not a public one."""
    seed: int | None = None
    """Of this device's world ψ, for simulated devices; by default at random."""
    patience: float = 3600.0
    """Seconds to keep trying when the service cannot be reached."""
    json: bool = False
    """Print the result as JSON and nothing else."""


def serve(given: list[str]) -> int:
    """`pgc serve`."""
    uvicorn = require("uvicorn", "service")
    require("fastapi", "service")
    from pgc.service import store
    from pgc.service.app import make_app, make_operator_app
    from pgc.service.keeper import Keeper

    args = parse(Serve, "serve", given)
    tls = _tls(args)
    if not tls and not args.plain_text and not is_loopback(args.host):
        raise PgcError(f"{args.host} can be reached by others: give --certificate and --key, --dev-tls, or say --plain-text")
    args.folder.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(store.sqlite_url(args.folder / "store.db"))
    if args.model not in keeper.models and (args.config is not None or not keeper.models):
        keeper.create(args.model, _config(args))
    for name, model in keeper.models.items():
        print(
            f"model {name}: version {model.version}, {model.received} reports, ε = {model.query.cost / 1e9:g} a report",
            flush=True,
        )
    applications = [uvicorn.Config(make_app(keeper), host=args.host, port=args.port, log_level="warning", **tls)]
    if args.operator_port:
        operator = make_operator_app(keeper)
        applications.append(uvicorn.Config(operator, host="127.0.0.1", port=args.operator_port, log_level="warning"))

    async def both() -> None:
        await asyncio.gather(*(uvicorn.Server(application).serve() for application in applications))

    try:
        asyncio.run(both())
    finally:
        keeper.close()
    return 0


def tokens(given: list[str]) -> int:
    """`pgc tokens`."""
    require("sqlalchemy", "service")
    import secrets

    from pgc.service import store

    args = parse(Tokens, "tokens", given)
    if not (args.folder / "store.db").is_file():
        raise PgcError(f"there is no service in {args.folder}; pgc serve {args.folder} makes one")
    engine = store.connect(store.sqlite_url(args.folder / "store.db"))
    with engine.begin() as db:
        if args.action == "issue":
            if args.count < 1 or args.submissions < 1:
                raise PgcError("count and submissions must be at least 1")
            made = [secrets.token_urlsafe(32) for _ in range(args.count)]
            store.issue_tokens(db, [store.hash_token(token) for token in made], args.submissions)
        elif args.action == "revoke" and args.token:
            if not store.revoke_token(db, store.hash_token(args.token)):
                raise PgcError("there is no such token")
            made = []
        else:
            raise PgcError("say pgc tokens issue FOLDER, or pgc tokens revoke FOLDER --token TOKEN")
    if args.json:
        return print_json({"tokens": made})
    print("\n".join(made) if made else "revoked")
    return 0


def join(given: list[str]) -> int:
    """`pgc join`."""
    require("httpx", "service")
    import numpy as np

    from pgc.agent import Address, draw_psi
    from pgc.device import Device
    from pgc.device.play import NumpyPlayer
    from pgc.device.recipe import Recipe
    from pgc.problem import build
    from pgc.randomness import trial_seed
    from pgc.service.client import ServiceClient, run_device
    from pgc.worlds.host import HostedWorld

    args = parse(Join, "join", given)
    with ServiceClient(
        args.url, args.token, model=args.model, ca=None if args.ca is None else str(args.ca), patience=args.patience
    ) as service:
        training = build(from_yaml(service.card()["config"])).training
        seed = int(np.random.default_rng().integers(2**31)) if args.seed is None else args.seed
        psi = draw_psi(Address(trial_seed(seed, 0), 0, 0), training.population)
        player = NumpyPlayer(HostedWorld(training.world, psi), Recipe.of(training))
        device = (
            Device.create(args.ledger, args.limit, player=player) if args.new_ledger else Device.open(args.ledger, player=player)
        )
        accepted, why = run_device(service, device)
    result = {"accepted": accepted, "ended": why, "epsilon_left": device.balance.left / 1e9}
    if args.json:
        return print_json(result)
    print(f"{accepted} report(s) accepted; ε = {result['epsilon_left']:g} is left. {why}.", file=sys.stdout)
    return 0


def _config(args: Serve) -> TrainConfig:
    if args.config is not None:
        try:
            return from_yaml(args.config.read_text())
        except OSError as error:
            raise PgcError(f"cannot read {args.config} ({error.strerror})") from None
    return configure(world=args.world, epsilon=args.epsilon, submissions_per_agent=args.submissions_per_agent)


def _tls(args: Serve) -> dict[str, str]:
    if (args.certificate is None) != (args.key is None):
        raise PgcError("--certificate and --key go together")
    if args.certificate is not None and args.key is not None:
        return {"ssl_certfile": str(args.certificate), "ssl_keyfile": str(args.key)}
    if not args.dev_tls:
        return {}
    require("cryptography", "service")
    from pgc.service.tls import make_dev_certificates

    files = make_dev_certificates(args.folder, args.host)
    print(f"devices need --ca {files.ca}", flush=True)
    return {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
