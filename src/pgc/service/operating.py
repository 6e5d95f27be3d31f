"""The HTTP interface of the operator: metrics, tokens, rolling back, and the live page.

| | |
|---|---|
| `GET /metrics` | for Prometheus |
| `GET`, `POST /tokens`, `POST /tokens/revoke` | batches with counts; a new batch; revoking |
| `POST /models/M/rollback/V?who=…&reason=…` | goes back to version V |
| `POST /models/M/rollback/V?dry_run=true` | says what that would do |
| `GET /models/M/rollbacks` | who went back, to what, and why |
| `GET /`, `/v1/…` | the live page, and what it shows |

Every request must carry the operator's secret, as `Authorization: Bearer …`, or as the password of
HTTP Basic, which browsers ask for.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pgc import __version__
from pgc.errors import PgcError, did_you_mean
from pgc.service import history, is_loopback, store, token_store
from pgc.service.app import add_page, add_public
from pgc.service.asking import Refused, explained, known, said
from pgc.service.keeper import Keeper, NoUpdates
from pgc.service.metrics import Metrics
from pgc.service.watch import Watch

log = logging.getLogger("pgc.service")


class Asked(BaseModel):
    """A JSON body with these fields and no others: one that is misspelt must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class NewTokens(Asked):
    """What tokens to issue, with the words of `pgc tokens issue`."""

    count: int = Field(1, ge=1, le=10**6)
    submissions: int = Field(1, ge=1, lt=2**31)
    label: str | None = None
    days: float | None = Field(None, gt=0, le=10**4)


class Revoked(Asked):
    """What tokens to revoke: these, or a batch by its label."""

    tokens: list[str] = []
    label: str | None = None


def make_operator_app(
    keeper: Keeper, watch: Watch, metrics: Metrics, secret: str, *, elsewhere: bool = False
) -> FastAPI:
    """Returns the operator's application, apart from what devices reach.

    Every request must carry the secret: other users of this machine can reach a port as well.
    Unless it may be reached from `elsewhere`, requests to another name than this machine's are
    refused, so that no web page can make a browser send them.
    """
    app = explained(
        FastAPI(title="pgc operator", version=__version__, docs_url=None, redoc_url=None)
    )
    add_page(app, keeper, watch)
    add_public(app, keeper, watch)

    @app.middleware("http")
    async def from_here(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Refuses requests of web pages, to another host name, or without the operator's secret."""
        strange = not elsewhere and not is_loopback(request.url.hostname or "")
        if "origin" in request.headers or strange:
            return said(403, "the operator's interface is not for web pages")
        if not hmac.compare_digest(_given(request), secret.encode()):
            if _given(request):
                log.warning("a request to the operator's port had a wrong secret")
            refusal = said(401, "the operator's secret is needed: Authorization: Bearer …")
            refusal.headers["www-authenticate"] = 'Basic realm="pgc operator"'
            return refusal
        return await call_next(request)

    @app.get("/metrics", response_class=Response)
    async def scraped(request: Request) -> Response:
        """Counts and gauges in Prometheus's text format."""
        accept = request.headers.get("accept", "")
        body, kind = await asyncio.to_thread(metrics.text, accept)
        return Response(body, headers={"content-type": kind})

    @app.get("/tokens")
    async def tokens() -> dict[str, Any]:
        """The batches of tokens, with counts."""
        return {"batches": await asyncio.to_thread(_batches, keeper)}

    @app.post("/tokens")
    async def issue(wanted: NewTokens) -> dict[str, Any]:
        """Issues a batch of tokens, and returns them: they are not stored."""
        made = await asyncio.to_thread(
            keeper.issue_tokens, wanted.count, wanted.submissions,
            batch=wanted.label, seconds=None if wanted.days is None else wanted.days * store.DAY,
        )  # fmt: skip
        return {"tokens": made}

    @app.post("/tokens/revoke")
    async def revoke(which: Revoked) -> dict[str, int]:
        """Revokes tokens, or all of a batch."""
        return {"revoked": await asyncio.to_thread(_revoke, keeper, which)}

    @app.post("/models/{model}/rollback/{version}")
    async def roll_back(
        request: Request,
        model: str,
        version: int,
        who: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Rolls a model back: makes a new version with an earlier θ, and returns its number."""
        name, choices = known(keeper, model), ("who", "reason", "dry_run")
        for given in set(request.query_params) - set(choices):
            raise Refused(400, f"there is no '{given[:50]}'{did_you_mean(given, choices)}")
        if not 0 <= version < 2**32:
            raise Refused(404, f"{model} has no such version")
        if dry_run:
            return await asyncio.to_thread(_would, keeper, watch, name, version)
        if not who.strip() or not reason.strip():
            raise Refused(400, "say who goes back, and why: ?who=…&reason=…")
        if not (who + reason).isprintable():
            raise Refused(400, "who and reason are one line each: they are logged")
        try:
            made = await asyncio.to_thread(
                keeper.roll_back, name, version, who=who[:200], reason=reason[:1000]
            )
        except NoUpdates:
            raise
        except PgcError as error:
            raise Refused(404, str(error)) from None
        return {"version": made}

    @app.get("/models/{model}/rollbacks")
    async def rollbacks(model: str) -> dict[str, Any]:
        """Who went back, to what, and why: the newest hundred."""

        def listed() -> list[history.Rollback]:
            with keeper.database.reading() as db:
                return history.list_rollbacks(db, known(keeper, model))

        return {"rollbacks": [wish._asdict() for wish in await asyncio.to_thread(listed)]}

    return app


def _given(request: Request) -> bytes:
    """Returns the secret that a request carries."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return given.encode()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(given, validate=True).partition(b":")[2]
        except ValueError:  # not base64
            return b""
    return b""


def _batches(keeper: Keeper) -> list[dict[str, Any]]:
    with keeper.database.reading() as db:
        listed = token_store.list_batches(db, int(keeper.clock()))
    return [batch.card for batch in listed]


def _revoke(keeper: Keeper, which: Revoked) -> int:
    if (which.label is None) == (not which.tokens):
        raise Refused(400, "give either tokens or a label")
    with keeper.database.writing() as db:
        if which.label is not None:
            if not (revoked := token_store.revoke_batch(db, which.label)):
                raise Refused(404, f"no batch '{which.label[:50]}' has tokens that can be used")
            return revoked
        hashes = [token_store.hash_token(token) for token in which.tokens]
        return sum(token_store.revoke_token(db, one) for one in hashes)


def _would(keeper: Keeper, watch: Watch, name: str, version: int) -> dict[str, Any]:
    """Says what rolling back would do."""
    with keeper.database.reading() as db:
        kept = store.load_version(db, name, version)
        newest = store.newest_version(db, name)
    if kept is None:
        raise Refused(404, f"{name} has no version {version}")
    points = [p for p in watch.seen.points.get(name, []) if p.score is not None]
    then = [p.score for p in points if p.version <= version]
    return {
        "dry_run": True,
        "would_restore": version,
        "would_become_version": newest + 1,
        "reports_whose_effect_is_lost": keeper.progress(name).accepted - kept.applied,
        "score_then": then[-1] if then else None,
        "score_now": points[-1].score if points else None,
    }
