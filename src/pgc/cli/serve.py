"""`pgc serve`: the aggregator as a service for real devices."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from pgc.cli.apart import call_apart
from pgc.cli.fields import RunCode, StoreUrl
from pgc.cli.options import flags_from_options
from pgc.cli.parsing import parse
from pgc.errors import PgcError, refuse_code, require
from pgc.randomise.budget import epsilon_shown
from pgc.service import is_loopback
from pgc.service.private import operator_secret

if TYPE_CHECKING:
    import numpy as np

    from pgc.config import TrainConfig
    from pgc.service.server import Certificate

OF_A_MODEL = ("world", "epsilon", "submissions_per_agent", "score_epsilon")
"""Flags that say what a new model is."""


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
    model: str | None = None
    """The model's name; by default `default`. A store can hold several models: start once with each
    --config; later starts serve all of them."""
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
    """Also serve the operator's interface (metrics, tokens, rolling back) at this port. Requests
    need the secret in FOLDER/operator.secret, which is made, or in $PGC_OPERATOR_SECRET, or in the
    file $PGC_OPERATOR_SECRET_FILE."""
    operator_host: str = "127.0.0.1"
    """The address of the operator's interface. If other machines can reach this address, it is
    served with the certificate of --certificate."""
    page: Literal["public", "operator"] = "public"
    """Who may see the live page: everybody, or the operator alone, at the operator's port."""
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
    operator_plain_text: bool = False
    """The same for --operator-host. Whoever sees the traffic can then read the operator's
    secret."""
    wait_seconds: float = 60.0
    """How long to wait at the start for a PostgreSQL that does not answer yet."""
    log_format: Literal["text", "json"] = "text"
    """How log lines are written."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are logged."""
    traces: bool = False
    """Send OpenTelemetry traces to the collector named in OTEL_EXPORTER_OTLP_ENDPOINT. They record
    to the millisecond when devices came, which pgc stores nowhere else."""
    options: Path | None = None
    """A YAML file with any of these flags as `name: value`. The command line overrides the
    environment (PGC_SERVE_NAME), which overrides the file."""


def serve(given: list[str]) -> int:
    """Runs `pgc serve` with the given flags, until it is stopped."""
    # in a container this is process 1, which no signal ends that it does not handle
    signal.signal(signal.SIGTERM, _stop)
    for needed in ("uvicorn", "uvloop", "fastapi", "sqlalchemy", "prometheus_client"):
        require(needed, "service")
    from pgc.cli.stores import errors_in_one_line, store_url
    from pgc.service import server
    from pgc.service.asking import Numbered
    from pgc.service.keeper import Keeper
    from pgc.service.logs import set_up_logs
    from pgc.service.traces import start_traces
    from pgc.service.updater_process import UpdaterProcess
    from pgc.service.watch import Watch

    args = parse(Serve, "serve", [*flags_from_options(Serve, "serve", given), *given])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is a certificate to renew
    _refuse(args)
    with errors_in_one_line():
        certificate = _certificate(args)
    logs: dict[str, str] = {"level": args.log_level, "format": args.log_format}
    set_up_logs(logs)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Numbered())
    log = logging.getLogger("pgc.service")
    with errors_in_one_line():
        url = store_url(args.folder, args.store, make=True)
        _wait_for(url, args.wait_seconds)
        _choose_model(url, args)
    with contextlib.ExitStack() as ending:
        served = False
        ending.callback(lambda: log.info("stopped; everything is kept") if served else None)
        if args.traces:
            ending.callback(start_traces("serve"))
        listener = ending.enter_context(server.listen(args.host, args.port))
        operating = None
        if args.operator_port is not None:
            reached = ending.enter_context(server.listen(args.operator_host, args.operator_port))
            with errors_in_one_line():
                secret = operator_secret(args.folder)
            operating = server.Operating(reached, secret, not is_loopback(args.operator_host))
        with errors_in_one_line():
            keeper = Keeper(url, offer_seconds=args.offer_seconds, run_code=args.run_code)
        ending.callback(keeper.close)
        scheme = "https" if certificate else "http"
        where = f"{socket.gethostname()} {scheme}://{args.host}:{args.port}/"
        updating = UpdaterProcess(
            url,
            where=where,
            run_code=args.run_code,
            logs=logs,
            told=keeper.follower.wake,
            traces=args.traces,
        )
        ending.callback(updating.close)
        keeper.wake_updater = updating.wake
        log.info("store: %s", keeper.database.shown)
        for name, model in keeper.models.items():
            log.info(
                "%s: version %d, %d reports, ε = %g a report",
                name,
                model.version,
                keeper.progress(name).accepted,
                epsilon_shown(model.query.cost),
            )
        watch = Watch(keeper, where)
        watch.updater_pid, watch.updater_starts = updating.pid, lambda: updating.starts
        ending.callback(watch.close)
        served = True
        server.serve(
            keeper,
            listener,
            watch,
            certificate=certificate,
            operating=operating,
            page=args.page == "public",
        )
    return 0


def _stop(*_: Any) -> None:
    """Ends the start after SIGTERM; `server.serve` has a way of its own."""
    raise SystemExit(0)


def _refuse(args: Serve) -> None:
    """Refuses flags that are out of range, or that would let others read tokens."""
    if not 1 <= args.offer_seconds <= 10**9:
        raise PgcError("--offer-seconds must be at least 1, and no more than a billion")
    if not 0 <= args.wait_seconds <= 10**6:
        raise PgcError("--wait-seconds must be between 0 and a million")
    tls = args.dev_tls or args.certificate is not None
    asked = {("--host", "--plain-text"): (args.host, args.plain_text)}
    if args.page == "operator" and args.operator_port is None:
        raise PgcError(
            "--page operator shows the live page at the operator's port: give --operator-port"
        )
    if args.operator_port is not None:
        flags = "--operator-host", "--operator-plain-text"
        asked[flags] = args.operator_host, args.operator_plain_text
    for (flag, plain), (host, said) in asked.items():
        if not (tls or said or is_loopback(host)):
            raise PgcError(
                f"{host} ({flag}) can be reached by others: give --certificate and --key, "
                f"--dev-tls, or say {plain}"
            )


def _wait_for(url: str, seconds: float) -> None:
    """Opens the store once, to migrate it; waits for a database that does not answer yet."""
    from pgc.service.database import Database, Unreachable

    log, end, said = logging.getLogger("pgc.service"), time.monotonic() + seconds, False
    while True:
        try:
            Database(url).close()
            return
        except Unreachable as error:
            if time.monotonic() >= end:
                raise
            if not said:
                log.warning("%s; waiting for it, up to %g s", error, seconds)
            said = True
            time.sleep(1.0)


def _choose_model(url: str, args: Serve) -> None:
    """Makes the model that the flags name, if it does not exist.

    If it exists, flags that contradict it are refused.
    """
    import yaml

    from pgc.service import store
    from pgc.service.database import Database

    database = Database(url)
    with database.reading() as db:
        found = store.list_models(db)
    database.close()
    for known, config in found.items():
        refuse_code(yaml.safe_load(config), f"the model '{known}' in the store", args.run_code)
    new = args.config is not None or args.theta is not None
    asked = {name: getattr(args, name) for name in OF_A_MODEL if getattr(args, name) is not None}
    if args.model is None and not found:
        args = replace(args, model="default")
    if args.model is None and (new or asked) and "default" not in found:
        args = replace(args, model="default")
    name = args.model or ("default" if "default" in found else None)
    if name is None:
        return  # a store with other models is served as it is
    if name not in found and (new or not found):
        call_apart(_create, url, name, args)
    elif name not in found:
        raise PgcError(
            f"there is no model '{name}'; for a new one beside {', '.join(found)} give --config or "
            "--theta"
        )
    elif new:
        raise PgcError(
            f"there is a model '{name}' already; a model keeps its config (give another --model)"
        )
    elif asked:
        call_apart(_compare, found[name], name, asked)


def _create(url: str, name: str, args: Serve) -> None:
    from pgc.service.creating import create_at

    theta = None if args.theta is None else _theta(args.theta)
    create_at(url, name, _config(args, theta), theta)


def _compare(text: str, name: str, asked: dict[str, Any]) -> None:
    """Refuses settings that contradict the config of a model that exists."""
    from pgc.config import from_yaml

    config = from_yaml(text)
    for field, value in asked.items():
        if value != getattr(config, field):
            flag = "--" + field.replace("_", "-")
            raise PgcError(
                f"the model '{name}' has {flag} {getattr(config, field)}, for life; give another "
                "--model"
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
    from pgc.config import configure, from_yaml

    own = None if theta is None else len(theta)
    if args.config is not None:
        try:
            config = from_yaml(args.config.read_text())
            refuse_code(vars(config), args.config, args.run_code)
            return replace(config, own_policy=own)
        except OSError as error:
            raise PgcError(f"cannot read {args.config} ({error.strerror})") from None
    asked = {name: getattr(args, name) for name in OF_A_MODEL}
    return configure(
        own_policy=own, **{name: value for name, value in asked.items() if value is not None}
    )


def _certificate(args: Serve) -> Certificate | None:
    from pgc.service.server import Certificate

    if (args.certificate is None) != (args.key is None):
        raise PgcError("--certificate and --key go together")
    if args.certificate is not None and args.key is not None:
        if args.dev_tls:
            raise PgcError("--dev-tls makes a certificate; give it, or --certificate and --key")
        given = Certificate(args.certificate, args.key)
        given.check()
        return given
    if not args.dev_tls:
        return None
    require("cryptography", "service")
    from pgc.service.tls import make_dev_certificates

    files = make_dev_certificates(args.folder, args.host)
    print(f"devices need --ca {files.ca}", flush=True)
    return Certificate(files.certificate, files.key)
