"""Alerts and dashboard: they go by metrics that exist, rules pass promtool, and queries yield something in a real Prometheus."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import httpx
import pytest
import yaml

from pgc.cli.main import main
from pgc.config import configure
from pgc.device.device import Device
from pgc.service.alone import Alone
from pgc.service.client import ServiceClient
from pgc.service.database import sqlite_url
from pgc.service.metrics import LABELS, Metrics
from pgc.service.watch import Watch
from pgc.wire import Offer
from tests.service.queries import Asked, ask, excuse, names, of_dashboard, of_rules
from tests.service.test_service import free_port, start
from tests.waiting import LIMIT, wait_for

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD = json.loads((DEPLOY / "grafana" / "pgc.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
PAGE = (DEPLOY.parent / "docs" / "watch-a-service.md").read_text(encoding="utf-8")
promtool = shutil.which("promtool")
needs_prometheus = pytest.mark.skipif(
    promtool is None, reason="Debian's package prometheus is not installed"
)


def queries():
    return [*of_dashboard(BOARD, "1m"), *(rule for rule, _ in of_rules(RULES))]


def test_every_metric_and_every_label_that_a_query_names_exists(tmp_path):
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    keeper.create("home", configure(epsilon=1.0, score_epsilon=0.1))
    watch = Watch(keeper, "here")
    watch.updater_pid = os.getpid
    metrics = Metrics(keeper, watch, expires_at=time.time() + 1e6)
    metrics.took("offers", 200, 0.1)
    metrics.stale("home", 1)
    watch.look()
    body, _ = metrics.text()
    watch.close()
    keeper.close()
    exported = set(re.findall(r"^# TYPE (\S+)", body.decode(), re.M))
    exported |= {f"{name}{end}" for name in exported for end in ("_bucket", "_count", "_sum")}
    recorded = {
        rule["record"] for group in RULES["groups"] for rule in group["rules"] if "record" in rule
    }
    for asked in queries():
        unknown = names(asked.query) - exported - recorded - {"up"}
        assert not unknown, f"{asked.where}: {unknown}"
        for label in re.findall(r'result="(\w+)"', asked.query):
            assert label in LABELS.values(), f"{asked.where}: {label}"
    assert "pgc_no_such_metric" not in exported


def test_every_alert_has_its_paragraph():
    headings = {line.lstrip("# ").lower() for line in PAGE.splitlines() if line.startswith("###")}
    for group in RULES["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                page, _, anchor = rule["annotations"]["runbook"].partition("#")
                assert page == "docs/watch-a-service.md" and anchor in headings, rule["alert"]


@needs_prometheus
@pytest.mark.more
def test_rules_and_configs_pass_promtool():
    place = DEPLOY / "prometheus"
    for command in (
        ["check", "rules", place / "alerts.yaml"],
        ["test", "rules", place / "alerts.test.yaml"],
        ["check", "config", "--syntax-only", place / "prometheus.yaml"],
        ["check", "config", "--syntax-only", place / "on-one-machine.yaml"],
    ):
        done = subprocess.run(
            [promtool, *command], capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def prometheus(folder, target, secret):
    """Debian's Prometheus, which scrapes one front end every two seconds."""
    port = free_port()
    (folder / "secret").write_text(secret)
    shutil.copy(DEPLOY / "prometheus" / "alerts.yaml", folder)
    (folder / "prometheus.yaml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
                "rule_files": ["alerts.yaml"],
                "scrape_configs": [
                    {
                        "job_name": "pgc",
                        "authorization": {"credentials_file": str(folder / "secret")},
                        "static_configs": [{"targets": [target]}],
                    }
                ],
            }
        )
    )
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
    ]
    with (folder / "prometheus.log").open("w") as log:
        running = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log, stdout=log
        )
    try:

        def ready():
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                return (
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).status
                    == 200
                )

        wait_for(ready, "Prometheus")
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


@needs_prometheus
@pytest.mark.more
def test_every_query_yields_something_under_load(tmp_path, capsys):
    folder, port, operator = tmp_path / "service", free_port(), free_port()
    server = start(
        folder,
        port,
        None,
        "--operator-port",
        str(operator),
        "--epsilon",
        "0.2",
        "--score-epsilon",
        "0.05",
    )
    url = f"https://127.0.0.1:{port}"
    try:
        secret = (folder / "operator.secret").read_text().strip()
        with prometheus(tmp_path, f"127.0.0.1:{operator}", secret) as address:
            main(["tokens", "issue", str(folder), "--count", "4000"])
            tokens = iter(capsys.readouterr().out.split())
            device = Device.create(tmp_path / "ledger.db", 1000.0)

            def load():
                """Twenty more reports, and a request that is refused."""
                for token in itertools.islice(tokens, 20):
                    with ServiceClient(url, token, ca=str(folder / "ca.pem")) as service:
                        offer = Offer.decode(service.offer())
                        report = device.release(offer, offer.theta, success=True)
                        assert service.submit(report) == "accepted"
                httpx.post(f"{url}/v1/models/default/reports", content=b"x", verify=False)

            selectors = [one for _, every in of_rules(RULES) for one in every]
            silent = {
                asked.query: asked.where
                for asked in (*of_dashboard(BOARD, "1m"), *selectors)
                if excuse(asked.query) is None
            }

            def all_yielded():
                load()  # rates need something that happens
                for query in list(silent):
                    said = ask(address, query)
                    assert said.error is None, f"{silent[query]}: {said.error}"
                    if said.series:
                        del silent[query]
                time.sleep(1.0)  # the next scrape is two seconds after the last
                return not silent

            wait_for(all_yielded, "every query")
            for rule, _ in of_rules(RULES):
                assert ask(address, rule.query).error is None, rule
            assert ask(address, "no_such_metric").series == 0
            assert ask(address, "this is no query(").error
            firing = ask(address, 'ALERTS{alertstate="firing",severity="page"}')
            assert firing.series == 0
        assert isinstance(queries()[0], Asked)
    finally:
        server.kill()
        server.wait()
