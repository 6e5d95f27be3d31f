"""What surrounds every request: a number for the log, the time that the answer took, HEAD for every
path with GET, and refusals of one line.
"""

from __future__ import annotations

import contextvars
import logging
import secrets
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgc.errors import PgcError
from pgc.service.keeper import MOST_BEHIND, Behind, Keeper, NoUpdates
from pgc.service.store import NotKept
from pgc.service.traces import traced
from pgc.service.writer import Busy, Unwritten
from pgc.wire import Malformed

REQUEST: contextvars.ContextVar[str | None] = contextvars.ContextVar("request", default=None)
"""Id of the request that is being answered: in its log lines, and in its answer's x-request-id."""
ROUTES = ("offers", "reports", "policy", "versions", "progress", "status", "health", "ready")
Took = Callable[[str, int, float], None]


class Refused(PgcError):
    """A refusal of a request, with the HTTP status to answer with."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Numbered(logging.Filter):
    """Adds the number of the request to a log line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the number; passes every line, and leaves none out."""
        record.request = number = REQUEST.get()
        record.named = "" if number is None else f" (request {number})"
        return True


class Surrounded:
    """An application with what surrounds every request."""

    def __init__(self, app: ASGIApp, took: Took) -> None:
        self._app, self._took = app, took

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number, begun, status = secrets.token_hex(4), time.perf_counter(), 500
        REQUEST.set(number)

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", number.encode())]
                message = {**message, "headers": headers}
            await send(message)

        inner: MutableMapping[str, Any] = scope
        if scope["method"] == "HEAD":
            inner = {**scope, "method": "GET"}  # the server leaves out the body
        where = route(scope["path"])
        try:
            with traced(where, request=number) as add:
                await self._app(inner, receive, sent)
                add("status", status)
        finally:
            self._took(where, status, time.perf_counter() - begun)


def route(path: str) -> str:
    """Returns a short word for a path, from a fixed list: strangers choose paths."""
    last = path.rstrip("/").rsplit("/", 1)[-1]
    if last in ROUTES:
        return last
    return (
        "page" if path in ("/", "/docs") else "card" if path.startswith("/v1/models") else "other"
    )


def said(status: int, words: str) -> Response:
    """Returns an answer of one line."""
    return JSONResponse({"detail": words}, status)


def explained(app: FastAPI) -> FastAPI:
    """Registers handlers that answer every refusal with one line of JSON; returns the app."""

    async def refused(request: Request, error: Exception) -> Response:
        return said(error.status if isinstance(error, Refused) else 400, str(error))

    def later(status: int, words: str, seconds: int = 1) -> Callable[..., Any]:
        async def handler(request: Request, error: Exception) -> Response:
            return JSONResponse({"detail": words}, status, {"retry-after": str(seconds)})

        return handler

    unwritten = later(503, "the store cannot be written now; send the same again")
    gone = later(503, "the version of this offer is no longer kept; ask again when it has expired")

    async def misread(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return said(422, f"{where[:50]}: {first['msg']}")

    app.add_exception_handler(RequestValidationError, misread)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(PgcError, refused)
    app.add_exception_handler(Malformed, refused)
    app.add_exception_handler(NoUpdates, later(503, "no process updates θ at the moment", 10))
    app.add_exception_handler(
        Behind, later(429, f"more than {MOST_BEHIND} reports wait for an update; ask later", 10)
    )
    app.add_exception_handler(Busy, later(429, "too many requests are waiting; try again"))
    for kind in (Unwritten, DBAPIError):
        app.add_exception_handler(kind, unwritten)
    app.add_exception_handler(NotKept, gone)
    return app


def known(keeper: Keeper, model: str) -> str:
    """Returns the name of a model, or refuses one that does not exist."""
    if model not in keeper.models:
        raise Refused(404, "there is no such model")
    return model
