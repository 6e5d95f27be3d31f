"""`pgc serve`, `pgc tokens`, `pgc join` and `pgc replay`: real devices, a real aggregator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from pgc.config import TrainConfig, configure, from_yaml
from pgc.errors import Interrupted, PgcError, require
from pgc.parsing import parse, print_json
from pgc.service import is_loopback

if TYPE_CHECKING:
    import numpy as np

    from pgc.service.keeper import Keeper
    from pgc.service.schema import Store

STORE = "PGC_STORE"


@dataclass(frozen=True)
class Serve:
    """Run the aggregator as a service: hand out offers, take reports, update θ. Ctrl-C ends it; started again, it goes on.

    Everything is kept in one folder. Without further flags it listens on this machine only, without TLS.
    """

    folder: Positional[Path] = Path("service")
    """Where everything is kept: store.db, and certificates if --dev-tls makes some."""
    store: str | None = None
    """Another store than the folder's: postgresql://USER@HOST/DATABASE, for several front ends. Also from $PGC_STORE, which other
    users of the machine cannot read."""
    config: Path | None = None
    """The config.yaml of a run (pgc train leaves one) for a new model; by default what pgc train does at --epsilon, --world."""
    theta: Path | None = None
    """θ_0 of a policy of the devices' own (numpy.save), which this program need not know: a new model that learns from gradients
    alone. --world and what belongs to it then mean nothing."""
    model: str = "default"
    """The model's name. Several may live in one store: start once with each --config; later starts serve all of them."""
    world: str | None = None
    """The world of a new model, where no --config is given; by default cartpole."""
    epsilon: float | None = None
    """ε of one agent, for all it ever sends, of a new model, where no --config is given; by default 1."""
    submissions_per_agent: int | None = None
    """T of a new model, where no --config is given: how often one agent submits, at ε/T each; by default 1."""
    score_epsilon: float | None = None
    """The share of ε for a noisy boolean "score ≥ Θ" in each report, of a new model, where no --config is given; by default 0."""
    offer_seconds: int = 3600
    """How long an offer may be answered, however many versions pass. A report after that is refused."""
    host: str = "127.0.0.1"
    """Where to listen."""
    port: int = 8443
    """And at which port."""
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
    """Issue, revoke or count the tokens with which devices may report. Printed once, stored hashed.

    pgc tokens issue FOLDER --count 10 --submissions 1 · pgc tokens revoke FOLDER --token TOKEN · pgc tokens count FOLDER
    """

    action: Positional[Literal["issue", "revoke", "count"]]
    """What to do."""
    folder: Positional[Path] = Path("service")
    """The service's folder. The service may be running."""
    store: str | None = None
    """Another store than the folder's, as for pgc serve; also from $PGC_STORE."""
    count: int = 1
    """How many to issue."""
    submissions: int = 1
    """T: how many reports each is good for."""
    token: str | None = None
    """The one to revoke."""
    json: bool = False
    """Print as JSON and nothing else."""


@dataclass(frozen=True)
class Join:
    """Run a device against a service: play the policy in this device's world, randomise, charge the ledger, report.

    Killed at any point it can be started again with the same command: nothing is charged or counted twice.
    """

    url: Positional[str]
    """Of the service, for instance https://localhost:8443."""
    limit: float
    """ε: the lifetime limit of a new ledger, whatever the service asks for. A ledger that is there keeps its own."""
    token: str | None = None
    """What admits this device (pgc tokens issue prints it)."""
    tokens: Path | None = None
    """A file with one token a line, for several simulated devices: pgc tokens issue --count K > FILE."""
    devices: int | None = None
    """How many simulated devices; by default one for each token."""
    world: str = "cartpole"
    """The world that the device lives in."""
    population: tuple[str, ...] | None = None
    """How the worlds of several devices differ, as in pgc train: FIELD=v1,v2,… or FIELD=low:high; by default the world's own."""
    ledger: Path | None = None
    """This device's ledger, by default ledger.db; for several devices the folder of their ledgers, by default ledgers."""
    new_ledger: bool = False
    """Make the ledger if there is none. Without it, a missing file is an error and not a fresh budget."""
    model: str = "default"
    """Which of the service's models."""
    ca: Path | None = None
    """The certificate of the authority to trust, if it is not a public one."""
    seed: int | None = None
    """Of the devices' worlds ψ; by default at random."""
    at_once: int = 8
    """How many of several devices run at the same time."""
    patience: float = 3600.0
    """Seconds to keep trying when the service cannot be reached."""
    json: bool = False
    """Print the result as JSON and nothing else."""


@dataclass(frozen=True)
class Replay:
    """Check a store: compute θ again from the accepted reports, in their order, and compare every version that is kept.

    Exits 1 if a version differs.
    """

    folder: Positional[Path] = Path("service")
    """The service's folder."""
    store: str | None = None
    """Another store than the folder's, as for pgc serve; also from $PGC_STORE."""
    model: str = "default"
    """Which model."""
    policy: Path | None = None
    """Write θ and the averaged policy of the last report here, as safetensors."""
    json: bool = False
    """Print the result as JSON and nothing else."""


def serve(given: list[str]) -> int:
    """`pgc serve`."""
    uvicorn, uvloop = require("uvicorn", "service"), require("uvloop", "service")
    require("fastapi", "service")
    from pgc.service.app import make_app, make_operator_app
    from pgc.service.keeper import Keeper
    from pgc.service.protocol import BoundedProtocol
    from pgc.service.watch import watch

    args = parse(Serve, "serve", given)
    if not 1 <= args.offer_seconds <= 10**9:
        raise PgcError("--offer-seconds must be at least 1, and no more than a billion")
    if not args.plain_text and not args.dev_tls and args.certificate is None and not is_loopback(args.host):
        raise PgcError(f"{args.host} can be reached by others: give --certificate and --key, --dev-tls, or say --plain-text")
    with _readable():
        tls = _tls(args)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    log = logging.getLogger("pgc.service")
    log.setLevel(logging.INFO)
    with _readable():
        keeper = Keeper(_store_url(args.folder, args.store, make=True), offer_seconds=args.offer_seconds)
    with contextlib.ExitStack() as ending:
        ending.callback(log.info, "stopped; everything is kept")
        ending.callback(keeper.close)
        with _readable():
            _choose_model(keeper, args)
        listeners = [ending.enter_context(_listen(args.host, args.port))]
        if args.operator_port is not None:
            listeners.append(ending.enter_context(_listen("127.0.0.1", args.operator_port)))
        for name, model in keeper.models.items():
            received, _ = keeper.accepted(name)
            log.info("%s: version %d, %d reports, ε = %g a report", name, model.version, received, model.query.cost / 1e9)
        _many_files()
        settings: dict[str, Any] = {"log_level": "warning", "log_config": None, "http": BoundedProtocol, "access_log": False}
        servers = [uvicorn.Server(uvicorn.Config(make_app(keeper), **settings, **tls))]
        if args.operator_port is not None:
            servers.append(uvicorn.Server(uvicorn.Config(make_operator_app(keeper), **settings)))

        async def serve_all() -> None:
            watching = asyncio.create_task(watch(keeper))
            log.info("listening at %s://%s:%d/", "https" if tls else "http", args.host, args.port)
            try:
                await asyncio.gather(*(server.serve([on]) for server, on in zip(servers, listeners, strict=True)))
            finally:
                watching.cancel()

        sys.setswitchinterval(0.001)  # the threads that write and update get their turn beside one that is always busy
        signal.signal(signal.SIGTERM, _end)  # uvicorn closes its connections and then raises the signal again
        with contextlib.suppress(_Ended):
            uvloop.run(serve_all())
    return 0


class _Ended(BaseException):
    """By SIGTERM."""


def _end(*_: Any) -> None:
    raise _Ended


def _listen(host: str, port: int) -> socket.socket:
    if not 0 < port < 2**16:
        raise PgcError(f"a port is between 1 and 65535, not {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise PgcError(f"cannot listen at {host}:{port} ({error.strerror}); --port and --operator-port choose others") from None


def _choose_model(keeper: Keeper, args: Serve) -> None:
    """Make the model that the flags name, if there is none; refuse flags that contradict one that is there."""
    new = args.config is not None or args.theta is not None
    if args.model not in keeper.models and (new or not keeper.models):
        theta = None if args.theta is None else _theta(args.theta)
        keeper.create(args.model, _config(args, theta), theta)
    elif args.model not in keeper.models:
        raise PgcError(
            f"there is no model '{args.model}'; for a new one beside {', '.join(keeper.models)} give --config or --theta"
        )
    elif new:
        raise PgcError(f"there is a model '{args.model}' already; a model keeps its config (give another --model)")
    else:
        config = keeper.models[args.model].config
        for name in ("world", "epsilon", "submissions_per_agent", "score_epsilon"):
            asked = getattr(args, name)
            if asked is not None and asked != getattr(config, name):
                flag = "--" + name.replace("_", "-")
                raise PgcError(f"the model '{args.model}' has {flag} {getattr(config, name)}, for life; give another --model")


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """What can go wrong with a store or a folder, as one line."""
    sqlalchemy = require("sqlalchemy", "service")
    try:
        yield
    except sqlalchemy.exc.DBAPIError as error:
        raise PgcError(f"the store cannot be used ({str(error.orig).strip().splitlines()[0]})") from None
    except OSError as error:
        raise PgcError(f"cannot use {error.filename or 'a file'} ({error.strerror or error})") from None
    except (ValueError, EOFError) as error:
        raise PgcError(f"cannot read what was given ({str(error).partition(chr(10))[0]})") from None


def tokens(given: list[str]) -> int:
    """`pgc tokens`."""
    args = parse(Tokens, "tokens", given)
    with _readable():
        result, said = _tokens(args)
    if args.json:
        return print_json(result)
    print(said)
    return 0


def _tokens(args: Tokens) -> tuple[dict[str, Any], str]:
    from pgc.service import store
    from pgc.service.keeper import issue_tokens

    database = _open(args.folder, args.store)
    result: dict[str, Any]
    if args.action == "issue":
        result = {"tokens": issue_tokens(database, args.count, args.submissions)}
        said = "\n".join(result["tokens"])
    elif args.action == "count":
        with database.reading() as db:
            tally = store.count_tokens(db)
        result = tally._asdict()
        said = f"{tally.usable} usable, for {tally.reports_left} reports; {tally.used_up} used up; {tally.revoked} revoked"
    else:
        if args.token is None:
            raise PgcError("which? pgc tokens revoke FOLDER --token TOKEN")
        with database.writing() as db:
            if not store.revoke_token(db, store.hash_token(args.token)):
                raise PgcError("there is no such token")
        result, said = {"revoked": 1}, "revoked"
    database.close()
    return result, said


def join(given: list[str]) -> int:
    """`pgc join`."""
    require("httpx", "service")
    import numpy as np

    from pgc.service.client import ServiceClient
    from pgc.service.fleet import Fleet, recipe_for
    from pgc.worlds import Population, make_world

    args = parse(Join, "join", given)
    admitted, ledgers = _admitted(args)
    world = make_world(args.world)
    varied = world.default_population if args.population is None else args.population
    ca = None if args.ca is None else str(args.ca)

    def connect(token: str) -> ServiceClient:
        return ServiceClient(args.url, token, model=args.model, ca=ca, patience=args.patience)

    with connect(admitted[0]) as service:
        card = service.card()
    if card.get("world") != args.world:
        trains = "".join(c for c in str(card.get("world"))[:40] if c.isprintable())
        raise PgcError(f"the service trains for {trains}; this device's world is {args.world} (--world)")
    begun = said = time.monotonic()

    def say(done: int, accepted: int) -> None:
        nonlocal said
        if len(admitted) > 1 and not args.json and (time.monotonic() > said + 5 or done == len(admitted)):
            said = time.monotonic()
            rate = accepted / (said - begun)
            print(
                f"{done} of {len(admitted)} devices are done: {accepted} reports accepted, {rate:.0f} a second", file=sys.stderr
            )

    fleet = Fleet(
        connect=connect,
        tokens=admitted,
        ledgers=ledgers,
        limit=args.limit,
        new_ledgers=args.new_ledger,
        world=world,
        population=Population.parse(world, varied),
        recipe=recipe_for(world, card.get("recipe")),
        seed=int(np.random.default_rng().integers(2**31)) if args.seed is None else args.seed,
        say=say,
    )
    try:
        joined = fleet.run(args.at_once)
    except KeyboardInterrupt:
        raise Interrupted("stopped; the same command goes on") from None
    why = [{"devices": n, "why": words} for words, n in joined.ended.most_common()]
    result = {"accepted": joined.accepted, "ended": why, "epsilon_left": joined.left / 1e9}
    if joined.accepted == 0 and len(admitted) == 1 and joined.failed:
        raise PgcError(why[0]["why"])
    if args.json:
        print_json(result)
    else:
        together = "" if len(admitted) == 1 else " in their ledgers together"
        print(f"{joined.accepted} report(s) accepted; ε = {result['epsilon_left']:g} is left{together}.", end=" ")
        print("; ".join(f"{n} device(s): {words}" for words, n in joined.ended.most_common()) + ".")
    return 2 if joined.failed else 0


def replay(given: list[str]) -> int:
    """`pgc replay`."""
    require("sqlalchemy", "service")
    import numpy as np
    from safetensors.numpy import save

    from pgc.service.replay import replay as run

    args = parse(Replay, "replay", given)
    with _readable():
        database = _open(args.folder, args.store)
        made = run(database, args.model)
        database.close()
    if args.policy is not None:
        with _readable():
            args.policy.write_bytes(save({"theta": np.asarray(made.state.theta), "averaged": np.asarray(made.state.average)}))
    result = made._asdict() | {"same": made.differs is None}
    del result["state"]
    if args.json:
        print_json(result)
    else:
        words = "the same to the bit" if made.differs is None else f"NOT the same from version {made.differs} on"
        print(f"{made.reports} reports make {made.versions} versions; {made.compared} of them are kept, and are {words}")
    return 0 if made.differs is None else 1


def _store_url(folder: Path, store: str | None, *, make: bool = False) -> str:
    from pgc.service.schema import sqlite_url

    url = store or os.environ.get(STORE)
    if url:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        return url
    if make:
        folder.mkdir(parents=True, exist_ok=True)
    elif not (folder / "store.db").is_file():
        raise PgcError(f"there is no service in {folder}; pgc serve {folder} makes one")
    return sqlite_url(folder / "store.db")


def _open(folder: Path, store: str | None) -> Store:
    from pgc.service.schema import Store

    return Store(_store_url(folder, store))


def _admitted(args: Join) -> tuple[list[str], list[Path]]:
    """The tokens, and the ledgers that go with them."""
    if (args.token is None) == (args.tokens is None):
        raise PgcError("give --token TOKEN, or --tokens FILE for several devices")
    if args.at_once < 1 or (args.devices is not None and args.devices < 1):
        raise PgcError("--devices and --at-once must be at least 1")
    if args.token is not None:
        if args.devices not in (None, 1):
            raise PgcError(f"{args.devices} devices need as many tokens: give --tokens FILE")
        return [args.token], [args.ledger or Path("ledger.db")]
    assert args.tokens is not None
    try:
        found = args.tokens.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise PgcError(f"cannot read tokens in {args.tokens} ({error})") from None
    wanted = len(found) if args.devices is None else args.devices
    if not 0 < wanted <= len(found):
        raise PgcError(f"{args.tokens} has {len(found)} token(s); {wanted} are needed")
    folder = args.ledger or Path("ledgers")
    if folder.exists() and not folder.is_dir():
        raise PgcError(f"{folder} is no folder; several devices keep their ledgers in one (--ledger)")
    return found[:wanted], [folder / f"{n:06}.db" for n in range(wanted)]


def _many_files() -> None:
    """As many connections as the system allows, not as many as a shell does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _theta(path: Path) -> np.ndarray:
    import numpy as np

    try:
        theta: np.ndarray = np.load(path, allow_pickle=False).astype(np.float32)
    except (OSError, ValueError) as error:
        raise PgcError(f"cannot read {path} as numpy.save wrote it ({error})") from None
    if theta.ndim != 1 or not len(theta) or not np.isfinite(theta).all():
        raise PgcError(f"{path} is no vector of finite numbers")
    return theta


def _config(args: Serve, theta: np.ndarray | None) -> TrainConfig:
    own = None if theta is None else len(theta)
    if args.config is not None:
        try:
            return replace(from_yaml(args.config.read_text()), own_policy=own)
        except OSError as error:
            raise PgcError(f"cannot read {args.config} ({error.strerror})") from None
    asked = {name: getattr(args, name) for name in ("world", "epsilon", "submissions_per_agent", "score_epsilon")}
    return configure(own_policy=own, **{name: value for name, value in asked.items() if value is not None})


def _tls(args: Serve) -> dict[str, str]:
    if (args.certificate is None) != (args.key is None):
        raise PgcError("--certificate and --key go together")
    if args.certificate is not None and args.key is not None:
        if args.dev_tls:
            raise PgcError("--dev-tls makes a certificate; give it, or --certificate and --key")
        for file in (args.certificate, args.key):
            if not os.access(file, os.R_OK):
                raise PgcError(f"cannot read {file}")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(args.certificate, args.key)
        except ssl.SSLError as error:
            raise PgcError(f"{args.certificate} and {args.key} are no certificate with its key ({error.reason})") from None
        return {"ssl_certfile": str(args.certificate), "ssl_keyfile": str(args.key)}
    if not args.dev_tls:
        return {}
    require("cryptography", "service")
    from pgc.service.tls import make_dev_certificates

    files = make_dev_certificates(args.folder, args.host)
    print(f"devices need --ca {files.ca}", flush=True)
    return {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
