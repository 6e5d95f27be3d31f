"""The HTTP interface of the service, for devices and for the public.

Offers and reports are binary (docs/wire.md), paths are versioned, and every refusal gives a reason.

| | |
|---|---|
| `POST /v1/models/M/offers`, with a token | 200 an offer; 401, 404; 410 its reports are used up |
| `POST /v1/models/M/reports`, with a token | 200 accepted; 400, 401, 404, 409, 410, 413 |
| `GET /v1/models`, `/v1/models/M` | what is public: names, settings, progress |
| `GET /v1/models/M/policy`, `/versions`, `/progress` | the policy; its history; how learning goes |
| `GET /health`, `/ready` | whether it lives; whether it can write |
| `GET /`, `/docs`, `/v1/status` | the live page; these paths; counts |

When more is waiting than can be written soon, the answer is 429 with Retry-After; when the store
fails, 503.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from sqlalchemy.exc import DBAPIError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from pgc import __version__
from pgc.errors import PgcError
from pgc.randomise.budget import NANO
from pgc.service import is_loopback
from pgc.service.admission import Verdict
from pgc.service.keeper import Keeper
from pgc.service.writer import Busy, Unwritten
from pgc.wire import Malformed
from pgc.wire.report import HEAD_SIZE

STATUS = {
    Verdict.ACCEPTED: 200,
    Verdict.DUPLICATE: 200,
    Verdict.UNKNOWN_TOKEN: 401,
    Verdict.UNKNOWN_OFFER: 404,
    Verdict.CONFLICT: 409,
    Verdict.LATE: 410,
    Verdict.USED_UP: 410,
}
BINARY = "application/octet-stream"
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


def make_app(keeper: Keeper) -> FastAPI:
    """Returns the HTTP application that devices and the public reach."""
    app = _explained(
        FastAPI(title="pgc aggregator", version=__version__, docs_url=None, redoc_url=None)
    )
    begun = time.monotonic()

    @app.post("/v1/models/{model}/offers", response_class=Response)
    async def offer(model: str, request: Request) -> Response:
        """Returns an offer for one report: the open offer that the token holds, or a new one."""
        token = _token(request)
        issued = await asyncio.wrap_future(keeper.offer(token, _known(keeper, model)))
        if isinstance(issued, Verdict):
            return _said(STATUS[issued], issued.value)
        made = (
            keeper.encoded(issued)
            if keeper.is_at_hand(issued)
            else await asyncio.to_thread(keeper.encoded, issued)
        )
        return InPieces(*made)

    @app.post("/v1/models/{model}/reports", response_class=Response)
    async def report(model: str, request: Request) -> Response:
        """Accepts a report that answers an offer, and returns the verdict.

        An accepted report is on disk before the response is sent. If the same report is sent again,
        it is acknowledged again, but counted once.
        """
        token, name = _token(request), _known(keeper, model)
        data = await _body(request, HEAD_SIZE + keeper.models[name].query.payload_size)
        verdict = await asyncio.wrap_future(keeper.report(token, name, data))
        assert isinstance(verdict, Verdict)
        return _said(STATUS[verdict], verdict.value)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The names of the models."""
        return {"models": sorted(keeper.models)}

    @app.get("/v1/models/{model}")
    async def model_card(model: str) -> dict[str, Any]:
        """What is public about a model: settings, progress, price."""
        it = keeper.models[_known(keeper, model)]
        so_far = keeper.progress(model)
        return {
            "model": model,
            "version": it.published.version,
            "received": so_far.accepted,
            "buffered": so_far.unapplied,
            "mechanism": it.query.name,
            "epsilon_per_report": it.query.cost / NANO,
            "numbers": len(it.published.template.theta),
            "world": None if it.training is None else it.config.world,
            "recipe": None if it.recipe is None else it.recipe.card,
            "bounds": it.config.bounds,
            "config": it.card_config,
        }

    @app.get("/v1/models/{model}/progress")
    async def progress(model: str) -> dict[str, Any]:
        """How learning went since this process began, from what is public and from the noisy
        booleans.
        """
        training = keeper.models[_known(keeper, model)].training
        points = [point._asdict() for point in keeper.points.get(model, [])]
        return {
            "threshold": None if training is None else training.world.score_threshold,
            "points": points,
        }

    @app.get("/v1/models/{model}/policy", response_class=Response)
    async def policy(model: str) -> Response:
        """θ and the averaged policy, as safetensors."""
        it = keeper.models[_known(keeper, model)]
        # one value: θ, average and version belong together, whatever the updater does meanwhile
        now = it.published
        return InPieces(now.policies, headers={"x-pgc-version": str(now.version)})

    @app.get("/v1/models/{model}/versions")
    async def versions(model: str) -> dict[str, Any]:
        """The newest hundred versions."""
        listed = await asyncio.to_thread(keeper.versions, _known(keeper, model))
        return {"versions": [row._asdict() for row in listed]}

    @app.get("/", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        """The live page, for people."""
        return HTMLResponse(PAGE)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def paths() -> HTMLResponse:
        """The paths, in a page that needs nothing from elsewhere."""
        rows = "".join(
            f"<tr><td><code>{method.upper()} "
            f"{path}</code></td><td>{how.get('description', '')}</td></tr>"
            for path, methods in app.openapi()["paths"].items()
            for method, how in methods.items()
        )
        return HTMLResponse(DOCS.format(version=__version__, rows=rows))

    @app.get("/v1/status")
    async def status() -> dict[str, Any]:
        """Counts since this process began, for the page: nothing private."""
        counts = [
            {"what": what, "result": result, "count": n}
            for (what, result), n in sorted(keeper.counts.items())
        ]
        return {
            "uptime_seconds": time.monotonic() - begun,
            "waiting": keeper.waiting,
            "updates": keeper.leads,
            "counts": counts,
        }

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Returns status 200 as long as this process runs."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> Response:
        """Whether the store can be used."""
        try:
            await asyncio.wait_for(asyncio.to_thread(keeper.ping), 5)
        except Exception:
            return _said(503, "the store cannot be written")
        return _said(200, "ready")

    return app


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


def make_operator_app(keeper: Keeper, secret: str) -> FastAPI:
    """Returns the operator's application, on loopback, apart from what devices reach: metrics for
    Prometheus, and rolling back.

    Every request must carry the secret (`Authorization: Bearer …`): other users of this machine can
    reach a port as well.
    """
    app = _explained(
        FastAPI(title="pgc operator", version=__version__, docs_url=None, redoc_url=None)
    )

    @app.middleware("http")
    async def from_here(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Refuses requests of web pages, to another host name, or without the operator's secret."""
        if "origin" in request.headers or not is_loopback(request.url.hostname or ""):
            return _said(403, "the operator's interface is not for web pages")
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), secret.encode()):
            return _said(401, "the operator's secret is needed: Authorization: Bearer …")
        return await call_next(request)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Counts and gauges in Prometheus's text format."""
        lines = ["# TYPE pgc_requests_total counter"]
        lines += [
            f'pgc_requests_total{{what="{what}",result="{result}"}} {n}'
            for (what, result), n in keeper.counts.items()
        ]
        lines += ["# TYPE pgc_waiting gauge", f"pgc_waiting {keeper.waiting}"]
        lines += ["# TYPE pgc_updates gauge", f"pgc_updates {int(keeper.leads)}"]
        gauges: dict[str, Callable[[str], int]] = {
            "version": lambda name: keeper.models[name].published.version,
            "received": lambda name: keeper.progress(name).accepted,
            "buffered": lambda name: keeper.progress(name).unapplied,
        }
        for gauge, value in gauges.items():
            lines.append(f"# TYPE pgc_model_{gauge} gauge")
            lines += [
                f'pgc_model_{gauge}{{model="{name}"}} {value(name)}' for name in keeper.models
            ]
        return "\n".join(lines) + "\n"

    @app.post("/models/{model}/rollback/{version}")
    async def roll_back(model: str, version: int) -> dict[str, int]:
        """Rolls a model back: makes a new version with an earlier θ, and returns its number."""
        if not 0 <= version < 2**32:
            raise _Refused(404, f"{model} has no such version")
        try:
            return {
                "version": await asyncio.to_thread(keeper.roll_back, _known(keeper, model), version)
            }
        except PgcError as error:
            raise _Refused(404, str(error)) from None

    return app


class _Refused(PgcError):
    """A refusal of a request, with the HTTP status to answer with."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _explained(app: FastAPI) -> FastAPI:
    """Registers handlers that answer every refusal with one line of JSON; returns the app."""

    async def refused(request: Request, error: Exception) -> Response:
        return _said(error.status if isinstance(error, _Refused) else 400, str(error))

    async def busy(request: Request, error: Exception) -> Response:
        return JSONResponse(
            {"detail": "too many requests are waiting; try again in a second"},
            429,
            {"retry-after": "1"},
        )

    async def unwritten(request: Request, error: Exception) -> Response:
        return JSONResponse(
            {"detail": "the store cannot be written now; send the same again"},
            503,
            {"retry-after": "1"},
        )

    app.add_exception_handler(_Refused, refused)
    app.add_exception_handler(Malformed, refused)
    app.add_exception_handler(Busy, busy)
    for kind in (Unwritten, DBAPIError, LookupError):
        app.add_exception_handler(kind, unwritten)
    return app


async def _body(request: Request, most: int) -> bytes:
    """Returns the body of a request; refuses one that is too long or does not come in time."""
    data = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise _Refused(413, f"a report of this model has {most} bytes")
    except TimeoutError:
        raise _Refused(408, f"the report did not come within {BODY_SECONDS:g} s") from None
    except ClientDisconnect:
        raise _Refused(400, "the connection was closed before the report ended") from None
    return data


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not 0 < len(token) <= 128:
        raise _Refused(401, "a token is needed: Authorization: Bearer …")
    return token


def _known(keeper: Keeper, model: str) -> str:
    if model not in keeper.models:
        raise _Refused(404, "there is no such model")
    return model


def _said(status: int, words: str) -> Response:
    return JSONResponse({"detail": words}, status)
