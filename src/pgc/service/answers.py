"""What the service answers, for openapi.json: JSON bodies, refusals, and the two binary bodies.

Nothing here runs when a request is answered. A test holds real answers against these models.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

BINARY = "application/octet-stream"
Responses = dict[int | str, dict[str, Any]]
Box = list[tuple[float | None, float | None]]


class Answer(BaseModel):
    """A JSON body, with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Detail(Answer):
    """A verdict, or why the request was refused."""

    detail: str


class Models(Answer):
    """The names of the models."""

    models: list[str]


class Play(Answer):
    """How the world of the model is played; null is an infinite number."""

    bounds: Box = Field(description="low and high of each number of an observation")
    actions: int | Box = Field(description="how many there are, or the range of each number")
    max_steps: int
    score_threshold: float | None = Field(description="Θ: an episode with this score succeeds")


class Card(Answer):
    """What is public about a model."""

    card: int = Field(description="version of the card: 2")
    model: str
    mechanism: str
    epsilon_per_report: float = Field(description="rounded up, for people")
    nano_epsilon_per_report: int = Field(description="what a device charges, exactly")
    numbers: int = Field(description="d, the length of θ")
    buffer_size: int = Field(description="|B|, reports in one update")
    world: str | None
    recipe: dict[str, Any] | None = Field(description="step 2 (docs/protocol.md); null: own policy")
    play: Play | None
    bounds: list[str] | None = Field(description="low:high, where the operator gave a box")
    config: str = Field(description="the settings, as YAML")
    version: int = Field(description="the newest version of θ")
    received: int = Field(description="reports that were accepted")
    buffered: int = Field(description="of these, how many are in no version yet")


class Point(Answer):
    """Where a model stood at one version."""

    version: int
    reports: int
    score: float | None = Field(description="greedy score of the averaged policy, simulated")
    success: float | None = Field(description="share of successes, by the noisy booleans")
    margin: float | None = Field(description="two standard deviations of it")


class Restored(Answer):
    """A version that restored an earlier one."""

    version: int
    restored: int
    reports: int


class Progress(Answer):
    """The curve of a model, and where it went back."""

    threshold: float | None
    points: list[Point]
    restored: list[Restored]


class Version(Answer):
    """A version of θ."""

    version: int
    applied: int = Field(description="place of the last report that is in it")
    made_at: int = Field(description="the hour in which it was made, in seconds since 1970")
    restored: int | None = Field(description="the earlier version that it restores")


class Versions(Answer):
    """The newest versions, the newest first."""

    versions: list[Version]


class Health(Answer):
    """Says that the process runs."""

    status: str


class Latency(Answer):
    """Upper bounds of how long answers to devices took, in seconds."""

    p50: float | None = None
    p99: float | None = None


class Count(Answer):
    """How many requests had a result."""

    what: str
    result: str
    count: int


class ModelStatus(Answer):
    """How a model does at the moment."""

    reports_a_minute: int
    stuck_seconds: float
    staleness: float | None


class Status(Answer):
    """How the service does at the moment."""

    uptime_seconds: float
    not_ready: str = Field(description="why not; empty: it is ready")
    updater_alive: bool
    updates_here: bool
    waiting: int
    front_ends: list[Latency]
    counts: list[Count]
    models: dict[str, ModelStatus]


def described(answers: dict[int, tuple[str, type[Answer]]]) -> Responses:
    """Returns FastAPI's `responses` for these statuses, each with a line and a body."""
    return {
        status: {"description": words, "model": body} for status, (words, body) in answers.items()
    }


def refused(*statuses: int) -> Responses:
    """Returns FastAPI's `responses` for refusals with these statuses."""
    return described({status: (REFUSALS[status], Detail) for status in statuses})


REFUSALS = {
    400: "The bytes are no report that this model's mechanism can make.",
    401: "There is no token, or it is unknown, revoked, or expired.",
    404: "There is no such model, or no such offer of this token.",
    408: "The body did not come in time.",
    409: "Another report answered this offer.",
    410: "The token's reports are used up, or the offer has expired.",
    413: "The body is longer than a report of this model.",
    429: "Too much is waiting. Ask again after the seconds in Retry-After.",
    503: "The store cannot be written. Ask again after the seconds in Retry-After.",
}
TOKEN = "token"
SECURITY = {
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A device's token (pgc tokens issue): 1 to 128 characters.",
    }
}
ASKS_WITH_TOKEN: dict[str, Any] = {"security": [{TOKEN: []}]}
OFFER: Responses = {
    200: {
        "description": "An offer (docs/wire.md): the one that this token holds, or a new one.",
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
    }
}
REPORT_BODY: dict[str, Any] = {
    **ASKS_WITH_TOKEN,
    "requestBody": {
        "required": True,
        "description": "A report (docs/wire.md): always the same bytes for the same offer.",
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
    },
}
POLICY: Responses = {
    200: {
        "description": "Safetensors with `theta` and `averaged`.",
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
        "headers": {
            "x-pgc-version": {"schema": {"type": "integer"}, "description": "Their version."}
        },
    }
}


def finished(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns FastAPI's openapi.json with how to authenticate, and without its own refusal (422),
    which paths without a JSON body never give.
    """
    schema.setdefault("components", {})["securitySchemes"] = SECURITY
    for methods in schema["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
    for unused in ("HTTPValidationError", "ValidationError"):
        schema["components"].get("schemas", {}).pop(unused, None)
    return schema
