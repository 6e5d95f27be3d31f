"""The files of deploy/: every flag, port, path, file and Secret that they name exists."""

import http.server
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from fastapi import FastAPI

from pgc.cli.options import flags_from_options
from pgc.cli.parsing import parse
from pgc.cli.serve import Serve, _refuse
from pgc.service.app import add_public
from tests.waiting import LIMIT

DEPLOY = Path(__file__).parents[1] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = [f for f in sorted(KUBERNETES.rglob("*.yaml")) if f.name != "kustomization.yaml"]


def documents():
    return [d for f in MANIFESTS for d in yaml.safe_load_all(f.read_text()) if d]


def found(kind, name="pgc"):
    (it,) = [d for d in documents() if d["kind"] == kind and d["metadata"]["name"] == name]
    return it


def in_image():
    line = re.search(r"^ENV (.*)$", (DEPLOY / "Containerfile").read_text(), re.M)[1]
    return dict(word.split("=", 1) for word in line.split())


def in_kubernetes():
    lines = (KUBERNETES / "base" / "pgc.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def in_compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["pgc"]["environment"]


@pytest.mark.parametrize("given", [in_image, in_kubernetes, in_compose])
def test_flags_exist_and_are_accepted_together(given, monkeypatch):
    for name, value in {**in_image(), **given()}.items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    args = parse(Serve, "serve", flags_from_options(Serve, "serve", []))
    if given is not in_image:  # which leaves TLS to whoever runs it
        _refuse(args)
        assert args.certificate and args.operator_port == 8444 and args.port == 8443


def test_probes_ask_for_paths_that_exist():
    app = FastAPI()
    add_public(app, None, None)
    paths = {route.path for route in app.routes}
    (container,) = found("Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in paths and asked["port"] in ports and asked["scheme"] == "HTTPS"
    for service in ("pgc", "pgc-operator"):
        assert {p["targetPort"] for p in found("Service", service)["spec"]["ports"]} <= ports


def test_pods_may_do_nothing():
    pod = found("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    uid = re.search(r"^USER (\d+):(\d+)$", (DEPLOY / "Containerfile").read_text(), re.M)
    assert pod["securityContext"]["runAsUser"] == int(uid[1])
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert pod["enableServiceLinks"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_files_that_are_named_exist():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        for mount in service.get("volumes", ()):
            if mount.startswith("./"):
                assert (DEPLOY / mount.split(":")[0]).is_file(), mount
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
    for file in KUBERNETES.rglob("kustomization.yaml"):
        for name in yaml.safe_load(file.read_text())["resources"]:
            assert (file.parent / name).exists()


def test_no_file_has_a_secret():
    assert not any(d["kind"] == "Secret" for d in documents())


@pytest.mark.more
@pytest.mark.parametrize("file", MANIFESTS, ids=lambda f: f.name)
def test_manifests_keep_to_kubernetes_schemas(file):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in yaml.safe_load_all(file.read_text()):
        if document["kind"] == "ServiceMonitor":  # of the Prometheus Operator
            continue
        for version in ("1.30", "1.37"):
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("status", [200, 503, None])
def test_ask_says_what_the_front_end_answers(status, monkeypatch):
    class Front(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/ready" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Front) as server:
        port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if status is None:
            server.shutdown()
            server.server_close()
        monkeypatch.setenv("PGC_SERVE_PORT", str(port))
        monkeypatch.setenv("PGC_SERVE_PLAIN_TEXT", "true")
        command = [sys.executable, "-IS", DEPLOY / "ask.py", "/ready"]
        asked = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
        if status is not None:
            server.shutdown()
    assert asked.returncode == (0 if status == 200 else 1)
