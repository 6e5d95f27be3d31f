"""`pgc serve`, `pgc tokens` and `pgc replay`: the aggregator for real devices, as its operator sees it."""

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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from pgc.cli.parsing import parse, print_json
from pgc.config.config import TrainConfig, configure, from_yaml
from pgc.errors import PgcError, require
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
