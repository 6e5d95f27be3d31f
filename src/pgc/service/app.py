"""The HTTP interface of the service, for devices and for the public.

Offers and reports are binary (docs/wire.md), paths are versioned, and every refusal gives a reason.

| | |
|---|---|
| `POST /v1/models/M/offers`, with a token | 200 an offer; 401, 404; 410 its reports are used up |
| `POST /v1/models/M/reports`, with a token | 200 accepted; 400, 401, 404, 409, 410, 413 |
| `GET /v1/models`, `/v1/models/M` | what is public: names, settings, progress |
| `GET /v1/models/M/policy`, `/versions`, `/progress` | the policy; its history; how learning goes |
| `GET /health`, `/ready` | whether it lives; whether it can do its work |
| `GET /`, `/docs`, `/v1/status` | the live page; these paths; counts |

When more is waiting than can be written or applied soon, the answer is 429 with Retry-After; when
the store fails, 503. HEAD works wherever GET does. `asking.py` has what surrounds every request,
and `operating.py` what only the operator reaches.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from pgc import __version__
from pgc.service.admission import Verdict
from pgc.service.answers import (
    ASKS_WITH_TOKEN,
    BINARY,
    OFFER,
    POLICY,
    REPORT_BODY,
    Card,
    Detail,
    Health,
    Models,
    Progress,
    Status,
    Versions,
    described,
    finished,
    refused,
)
from pgc.service.asking import Refused, explained, known, said
from pgc.service.keeper import Keeper
from pgc.service.watch import Watch
from pgc.wire.report import HEAD_SIZE

STATUS = {
    Verdict.ACCEPTED: 200,
    Verdict.DUPLICATE: 200,
    Verdict.UNKNOWN_TOKEN: 401,
    Verdict.REVOKED: 401,
    Verdict.EXPIRED: 401,
    Verdict.UNKNOWN_OFFER: 404,
    Verdict.CONFLICT: 409,
    Verdict.LATE: 410,
    Verdict.USED_UP: 410,
}
BODY_SECONDS = 30.0
PIECE = 2**16
PAGE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
"""The live page: one file, no network but the service itself. It shows what is public, counts, and
what noisy booleans say."""
DOCS = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>pgc aggregator: paths</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }}
td {{ border-top: 1px solid #8884; padding: .4rem .8rem .4rem 0; vertical-align: top; }}</style>
<h1>pgc aggregator {version}</h1>
<p>For programs: <a href="/openapi.json">openapi.json</a>. Bodies are described in
docs/wire.md.</p><table>{rows}</table></html>"""


def make_app(keeper: Keeper, watch: Watch, *, page: bool = True) -> FastAPI:
    """Returns the HTTP application that devices and the public reach; `page` is whether the live
    page is public.
    """
    app = explained(
        FastAPI(title="pgc aggregator", version=__version__, docs_url=None, redoc_url=None)
    )
    if page:
        add_page(app, keeper, watch)

    @app.post(
        "/v1/models/{model}/offers",
        response_class=Response,
        responses={**OFFER, **refused(401, 404, 410, 429, 503)},
        openapi_extra=ASKS_WITH_TOKEN,
    )
    async def offer(model: str, request: Request) -> Response:
        """Returns an offer for one report: the open offer that the token holds, or a new one."""
        token = _token(request)
        issued = await asyncio.wrap_future(keeper.offer(token, known(keeper, model)))
        if isinstance(issued, Verdict):
            return said(STATUS[issued], issued.value)
        made = (
            keeper.encoded(issued)
            if keeper.is_at_hand(issued)
            else await asyncio.to_thread(keeper.encoded, issued)
        )
        return InPieces(*made)

    @app.post(
        "/v1/models/{model}/reports",
        response_class=Response,
        responses={
            **described({200: ("accepted, or duplicate: it was accepted before", Detail)}),
            **refused(400, 401, 404, 408, 409, 410, 413, 429, 503),
        },
        openapi_extra=REPORT_BODY,
    )
    async def report(model: str, request: Request) -> Response:
        """Accepts a report that answers an offer, and returns the verdict.

        An accepted report is on disk before the response is sent. If the same report is sent again,
        it is acknowledged again, but counted once.
        """
        token, name = _token(request), known(keeper, model)
        data = await _body(request, HEAD_SIZE + keeper.models[name].query.payload_size)
        verdict = await asyncio.wrap_future(keeper.report(token, name, data))
        assert isinstance(verdict, Verdict)
        return said(STATUS[verdict], verdict.value)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def paths() -> HTMLResponse:
        """The paths, in a page that needs nothing from elsewhere."""
        rows = "".join(
            f"<tr><td><code>{method.upper()} {path}</code></td>"
            f"<td>{how.get('description', '')}{_statuses(how)}</td></tr>"
            for path, methods in app.openapi()["paths"].items()
            for method, how in methods.items()
        )
        return HTMLResponse(DOCS.format(version=__version__, rows=rows))

    add_public(app, keeper, watch)
    schema = finished(app.openapi())
    app.openapi = lambda: schema  # type: ignore[method-assign]
    return app


def add_page(app: FastAPI, keeper: Keeper, watch: Watch) -> None:
    """Adds the live page, and the counts that it shows."""

    @app.get("/", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        """The live page, for people."""
        return HTMLResponse(PAGE)

    @app.get("/v1/status", responses=described({200: ("counts and state", Status)}))
    async def status() -> dict[str, Any]:
        """Counts since the front ends began, and how they are: nothing private."""
        return {
            "uptime_seconds": time.monotonic() - watch.begun,
            "not_ready": watch.not_ready(),
            "updater_alive": watch.seen.updater is not None,
            "updates_here": watch.seen.updater == watch.where,
            "waiting": keeper.waiting + sum(o.facts["waiting"] for o in watch.seen.others),
            "front_ends": [
                watch.latency(),
                *(other.facts["latency"] for other in watch.seen.others),
            ],
            "counts": [
                {"what": what, "result": result, "count": n}
                for (what, result), n in sorted(watch.counts().items())
            ],
            "models": {
                name: {
                    "reports_a_minute": keeper.follower.reports_a_minute(name),
                    "stuck_seconds": keeper.follower.stuck_seconds(name),
                    "staleness": watch.staleness(name),
                }
                for name in sorted(keeper.models)
            },
        }


def add_public(app: FastAPI, keeper: Keeper, watch: Watch) -> None:
    """Adds what anybody may read."""

    @app.get("/v1/models", responses=described({200: ("names", Models)}))
    async def models() -> dict[str, Any]:
        """The names of the models."""
        return {"models": sorted(keeper.models)}

    @app.get(
        "/v1/models/{model}",
        responses={**described({200: ("the card", Card)}), **refused(404)},
    )
    async def model_card(model: str) -> dict[str, Any]:
        """What is public about a model: settings, progress, price."""
        it = keeper.models[known(keeper, model)]
        so_far = keeper.progress(model)
        return {
            **it.card,
            "version": it.version,
            "received": so_far.accepted,
            "buffered": so_far.unapplied,
        }

    @app.get(
        "/v1/models/{model}/progress",
        responses={**described({200: ("the curve", Progress)}), **refused(404, 503)},
    )
    async def progress(model: str) -> dict[str, Any]:
        """How learning went, from what is public and from the noisy booleans; and where the
        operator went back.
        """
        play = keeper.models[known(keeper, model)].card["play"]
        seen = watch.seen
        return {
            "threshold": None if play is None else play["score_threshold"],
            "points": [point._asdict() for point in seen.points.get(model, [])],
            "restored": [
                {"version": v.version, "restored": v.restored, "reports": v.applied}
                for v in seen.restored.get(model, [])
            ],
        }

    @app.get(
        "/v1/models/{model}/policy",
        response_class=Response,
        responses={**POLICY, **refused(404)},
    )
    async def policy(model: str) -> Response:
        """θ and the averaged policy, as safetensors."""
        it = keeper.models[known(keeper, model)]
        # one value: θ, average and version belong together, whatever is made meanwhile
        return InPieces(it.policy, headers={"x-pgc-version": str(it.version)})

    @app.get(
        "/v1/models/{model}/versions",
        responses={**described({200: ("the history", Versions)}), **refused(404, 503)},
    )
    async def versions(model: str) -> dict[str, Any]:
        """The newest hundred versions."""
        listed = await asyncio.to_thread(keeper.versions, known(keeper, model))
        return {"versions": [row._asdict() for row in listed]}

    @app.get("/health", responses=described({200: ("alive", Health)}))
    async def health() -> dict[str, str]:
        """Returns status 200 as long as this process runs."""
        return {"status": "ok"}

    @app.get(
        "/ready",
        responses=described({200: ("ready", Detail), 503: ("not ready, and why", Detail)}),
    )
    async def ready() -> Response:
        """Whether this front end can do its work: the store can be written, and θ is updated."""
        why = watch.not_ready()
        return said(503, why) if why else said(200, "ready")


class InPieces(Response):
    """A response that is sent piece by piece, each when its reader has taken the ones before.

    Readers that do not read then hold a piece each, and not the whole body, which is made of parts
    that responses share.
    """

    def __init__(self, *parts: bytes, headers: dict[str, str] | None = None) -> None:
        super().__init__(media_type=BINARY, headers=headers)
        self._parts = parts
        self.headers["content-length"] = str(sum(map(len, parts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the head, and then the body."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        for part in self._parts:
            view = memoryview(part)
            for at in range(0, len(view), PIECE):
                piece = bytes(view[at : at + PIECE])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _statuses(how: dict[str, Any]) -> str:
    """Returns the answers of a path as a list in HTML."""
    each = how["responses"].items()
    return "<ul>" + "".join(f"<li>{code}: {it['description']}</li>" for code, it in each) + "</ul>"


async def _body(request: Request, most: int) -> bytes:
    """Returns the body of a request; refuses one that is too long or does not come in time."""
    data = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise Refused(413, f"a report of this model has {most} bytes")
    except TimeoutError:
        raise Refused(408, f"the report did not come within {BODY_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the connection was closed before the report ended") from None
    return data


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not 0 < len(token) <= 128:
        raise Refused(401, "a token is needed: Authorization: Bearer …")
    return token
