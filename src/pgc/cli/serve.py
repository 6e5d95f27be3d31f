"""`pgc serve`: the aggregator as a service for real devices."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from pgc.cli.fields import RunCode, StoreUrl
from pgc.cli.parsing import parse
from pgc.config import TrainConfig, configure, from_yaml
from pgc.config.files import refuse_code
from pgc.errors import PgcError, require
from pgc.randomise.budget import NANO
from pgc.service import is_loopback

if TYPE_CHECKING:
    import numpy as np

    from pgc.service.keeper import Keeper


@dataclass(frozen=True)
class Serve:
    """Run the aggregator as a service: hand out offers, take reports, update θ.

    Ctrl-C stops it, and starting it again continues where it stopped. Everything is kept in one
    folder. Without further flags it listens on this machine only, without TLS.
    """

    folder: Positional[Path] = Path("service")
    """Where everything is kept: store.db, operator.secret if there is an --operator-port,
    and certificates if --dev-tls makes some."""
    store: StoreUrl = None
    config: Path | None = None
    """The config.yaml of a run folder of pgc train, for a new model; by default the settings that
    pgc train has with --world, --epsilon and the flags below."""
    theta: Path | None = None
    """A file of numpy.save with θ_0, for a new model whose policy only the devices know, and which
    learns from gradients alone. --world and the settings that belong to it then have no effect."""
    model: str = "default"
    """The model's name. A store can hold several models: start once with each --config; later
    starts serve all of them."""
    world: str | None = None
    """The world of a new model, if no --config is given; by default cartpole."""
    epsilon: float | None = None
    """ε of one agent, for all it ever sends, in a new model, if no --config is given; by default
    1."""
    submissions_per_agent: int | None = None
    """T of a new model, if no --config is given: how often one agent submits, at ε/T each; by
    default 1."""
    score_epsilon: float | None = None
    """The part of ε that one agent spends on noisy booleans "score ≥ Θ", one in each report, in a
    new model, if no --config is given; by default 0, which sends none."""
    offer_seconds: int = 3600
    """For how many seconds an offer may be answered, however many versions of θ are made meanwhile.
    A later report is refused."""
    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = 8443
    """The port to listen at."""
    operator_port: int | None = None
    """Also serve the operator's interface (metrics, rolling back) at this port, for this machine
    only. Requests need the secret in FOLDER/operator.secret, which is made, or in
    $PGC_OPERATOR_SECRET."""
    certificate: Path | None = None
    """The server's certificate (PEM). With it and --key, the service uses TLS."""
    key: Path | None = None
    """The certificate's private key (PEM)."""
    dev_tls: bool = False
    """Use TLS with a certificate that is made here, for trying things out. Devices then need --ca
    FOLDER/ca.pem."""
    run_code: RunCode = False
    plain_text: bool = False
    """Listen without TLS on an address that others can reach. Whoever sees the traffic can then
    read the tokens."""


def serve(given: list[str]) -> int:
    """Runs `pgc serve` with the given flags, until it is stopped."""
    for needed in ("uvicorn", "uvloop", "fastapi", "sqlalchemy"):
        require(needed, "service")
    from pgc.cli.stores import errors_in_one_line, store_url
    from pgc.service import server
    from pgc.service.keeper import Keeper
    from pgc.service.logs import Limited
    from pgc.service.private import operator_secret

    args = parse(Serve, "serve", given)
    if not 1 <= args.offer_seconds <= 10**9:
        raise PgcError("--offer-seconds must be at least 1, and no more than a billion")
    if (
        not args.plain_text
        and not args.dev_tls
        and args.certificate is None
        and not is_loopback(args.host)
    ):
        raise PgcError(
            f"{args.host} can be reached by others: give --certificate and --key, --dev-tls, or "
            "say --plain-text"
        )
    with errors_in_one_line():
        tls = _tls(args)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    log = logging.getLogger("pgc.service")
    log.setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Limited())
    with errors_in_one_line():
        keeper = Keeper(
            store_url(args.folder, args.store, make=True),
            offer_seconds=args.offer_seconds,
            run_code=args.run_code,
        )
    with contextlib.ExitStack() as ending:
        ending.callback(log.info, "stopped; everything is kept")
        ending.callback(keeper.close)
        with errors_in_one_line():
            _choose_model(keeper, args)
        listeners = [ending.enter_context(server.listen(args.host, args.port))]
        if args.operator_port is not None:
            listeners.append(ending.enter_context(server.listen("127.0.0.1", args.operator_port)))
        for name, model in keeper.models.items():
            log.info(
                "%s: version %d, %d reports, ε = %g a report",
                name,
                model.version,
                keeper.progress(name).accepted,
                model.query.cost / NANO,
            )
        where = f"{'https' if tls else 'http'}://{args.host}:{args.port}/"
        with errors_in_one_line():
            secret = "" if args.operator_port is None else operator_secret(args.folder)
        server.serve(keeper, listeners, tls, where, secret)
    return 0


def _choose_model(keeper: Keeper, args: Serve) -> None:
    """Makes the model that the flags name, if it does not exist.

    If it exists, flags that contradict it are refused.
    """
    new = args.config is not None or args.theta is not None
    if args.model not in keeper.models and (new or not keeper.models):
        theta = None if args.theta is None else _theta(args.theta)
        keeper.create(args.model, _config(args, theta), theta)
    elif args.model not in keeper.models:
        raise PgcError(
            f"there is no model '{args.model}'; for a new one beside {', '.join(keeper.models)} "
            "give --config or --theta"
        )
    elif new:
        raise PgcError(
            f"there is a model '{args.model}' already; a model keeps its config (give another "
            "--model)"
        )
    else:
        config = keeper.models[args.model].config
        for name in ("world", "epsilon", "submissions_per_agent", "score_epsilon"):
            asked = getattr(args, name)
            if asked is not None and asked != getattr(config, name):
                flag = "--" + name.replace("_", "-")
                raise PgcError(
                    f"the model '{args.model}' has {flag} {getattr(config, name)}, for life; give "
                    "another --model"
                )


def _theta(path: Path) -> np.ndarray:
    import numpy as np

    try:
        theta: np.ndarray = np.load(path, allow_pickle=False).astype(np.float32)
    except (OSError, ValueError) as error:
        raise PgcError(f"cannot read {path} as numpy.save wrote it ({error})") from None
    if theta.ndim != 1 or not len(theta) or not np.isfinite(theta).all():
        raise PgcError(f"{path} is not a vector of finite numbers")
    return theta


def _config(args: Serve, theta: np.ndarray | None) -> TrainConfig:
    own = None if theta is None else len(theta)
    if args.config is not None:
        try:
            config = from_yaml(args.config.read_text())
            refuse_code(vars(config), args.config, args.run_code)
            return replace(config, own_policy=own)
        except OSError as error:
            raise PgcError(f"cannot read {args.config} ({error.strerror})") from None
    asked = {
        name: getattr(args, name)
        for name in ("world", "epsilon", "submissions_per_agent", "score_epsilon")
    }
    return configure(
        own_policy=own, **{name: value for name, value in asked.items() if value is not None}
    )


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
            raise PgcError(
                f"{args.certificate} and {args.key} are no certificate with its key "
                f"({error.reason})"
            ) from None
        return {"ssl_certfile": str(args.certificate), "ssl_keyfile": str(args.key)}
    if not args.dev_tls:
        return {}
    require("cryptography", "service")
    from pgc.service.tls import make_dev_certificates

    files = make_dev_certificates(args.folder, args.host)
    print(f"devices need --ca {files.ca}", flush=True)
    return {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
