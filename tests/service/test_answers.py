"""openapi.json says what the service really answers, and which refusals there are."""

import asyncio

import httpx
import numpy as np
import pytest

from pgc.config import configure
from pgc.device.device import Device
from pgc.service import answers
from pgc.service.alone import Alone
from pgc.service.app import STATUS, make_app
from pgc.service.database import sqlite_url
from pgc.service.metrics import Metrics
from pgc.service.watch import Watch
from tests.waiting import LIMIT

CONFIG = configure(
    epsilon=1.0, submissions=1000, buffer_size=1, local_episodes=2, score_epsilon=0.1
)


@pytest.fixture
def ask(tmp_path):
    """A function that asks a service with one model."""
    keeper = Alone(sqlite_url(tmp_path / "store.db"))
    keeper.create("home", CONFIG)
    watch = Watch(keeper, "here")
    Metrics(keeper, watch)
    app = make_app(keeper, watch)

    def asked(method, path, **more):
        async def once():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
                return await client.request(method, path, timeout=LIMIT, **more)

        return asyncio.run(once())

    asked.keeper = keeper
    yield asked
    watch.close()
    keeper.close()


def send(ask, device_file):
    """One report, through HTTP. Returns the answers to offer and report, and what was sent."""
    [token] = ask.keeper.issue_tokens(1, 1)
    headers = {"authorization": f"Bearer {token}"}
    offered = ask("POST", "/v1/models/home/offers", headers=headers)
    made = Device.create(device_file, 2.0).release(offered.content, np.ones(112), success=True)
    return offered, ask("POST", "/v1/models/home/reports", headers=headers, content=made), headers


def test_answers_have_the_described_fields(ask, tmp_path):
    _, accepted, _ = send(ask, tmp_path / "1.db")
    assert accepted.status_code == 200
    ask.keeper.wait_until_applied()
    ask.keeper.roll_back("home", 0, who="ada", reason="a test")
    for path, model in {
        "/v1/models": answers.Models,
        "/v1/models/home": answers.Card,
        "/v1/models/home/progress": answers.Progress,
        "/v1/models/home/versions": answers.Versions,
        "/v1/status": answers.Status,
        "/health": answers.Health,
        "/ready": answers.Detail,
        "/v1/models/other": answers.Detail,
    }.items():
        model.model_validate_json(ask("GET", path).content, strict=False)
    answers.Detail.model_validate_json(accepted.content)


def test_every_refusal_is_described(ask, tmp_path):
    """Each status that a verdict has, and each that the paths below give."""
    paths = ask("GET", "/openapi.json").json()["paths"]
    described = {
        path.rsplit("/", 1)[-1]: set(map(int, methods["post"]["responses"]))
        for path, methods in paths.items()
        if "post" in methods
    }
    assert set(STATUS.values()) <= described["reports"]
    offered, accepted, headers = send(ask, tmp_path / "1.db")
    seen = {
        "offers": {
            ask("POST", "/v1/models/home/offers").status_code,
            ask("POST", "/v1/models/none/offers", headers=headers).status_code,
            ask("POST", "/v1/models/home/offers", headers=headers).status_code,
            offered.status_code,
        },
        "reports": {
            ask("POST", "/v1/models/home/reports", headers=headers, content=b"x").status_code,
            ask("POST", "/v1/models/home/reports", headers=headers, content=b"x" * 99).status_code,
            ask("POST", "/v1/models/home/reports", content=b"x").status_code,
            accepted.status_code,
        },
    }
    assert seen == {"offers": {401, 404, 410, 200}, "reports": {400, 413, 401, 200}}
    assert all(seen[name] <= described[name] for name in seen)


def test_bodies_and_authentication_are_described(ask):
    schema = ask("GET", "/openapi.json").json()
    report = schema["paths"]["/v1/models/{model}/reports"]["post"]
    assert (
        report["security"] == [{"token": []}] and "token" in schema["components"]["securitySchemes"]
    )
    assert "application/octet-stream" in report["requestBody"]["content"]
    assert all(
        "422" not in how["responses"] for m in schema["paths"].values() for how in m.values()
    )
    page = ask("GET", "/docs").text
    assert "429" in page and "/v1/models/{model}/reports" in page
