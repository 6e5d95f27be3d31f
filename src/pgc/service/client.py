"""The device's side of the service: fetch an offer, answer it, send the report until it is acknowledged, always the same bytes.

with ServiceClient(url, token) as service:
    run_device(service, device)
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import httpx

from pgc.device import Device, Refusal
from pgc.errors import PgcError
from pgc.service import is_loopback

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0


class ServiceClient:
    """One device's connection. Whatever is temporary is tried again, with growing, random pauses, until patience ends."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        model: str = "default",
        ca: str | None = None,
        patience: float = 3600.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`ca`: a file with the certificate of the authority to trust, if it is not a public one. `patience`: in seconds."""
        if httpx.URL(url).scheme != "https" and not is_loopback(httpx.URL(url).host):
            raise PgcError(f"{url} is not https: reports are private by themselves, a token is not")
        verify: ssl.SSLContext | bool = True if ca is None else ssl.create_default_context(cafile=ca)
        self._http = httpx.Client(base_url=url, verify=verify, timeout=30, headers={"authorization": f"Bearer {token}"})
        self._model, self._patience, self._sleep = model, patience, sleep

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    def card(self) -> dict[str, Any]:
        """What is public about the model."""
        made: dict[str, Any] = self._ask("GET", "", b"").json()
        return made

    def offer(self) -> bytes | None:
        """An offer; None if this token's reports are used up."""
        answer = self._ask("POST", "/offers", b"")
        return None if answer.status_code == 410 else answer.content

    def submit(self, report: bytes) -> str:
        """What became of a report: "accepted", "duplicate", or why it came too late."""
        answer = self._ask("POST", "/reports", report)
        return str(answer.json()["detail"])

    def _ask(self, method: str, path: str, body: bytes) -> httpx.Response:
        """Until there is an answer. 404, 409 and 410 are answers; 400, 401 and 413 are mistakes that no retry mends."""
        pause, until, why = FIRST_PAUSE, time.monotonic() + self._patience, ""
        while True:
            wait = pause
            try:
                answer = self._http.request(method, f"/v1/models/{self._model}{path}", content=body)
                if answer.status_code in (200, 404, 409, 410):
                    if answer.status_code == 404 and not path.startswith("/reports"):
                        raise PgcError(f"the service has no model '{self._model}'")
                    return answer
                why = f"{answer.status_code}: {_detail(answer)}"
                if answer.status_code < 500 and answer.status_code != 429:
                    raise PgcError(f"the service refuses: {_detail(answer)}")
                wait = max(wait, float(answer.headers.get("retry-after", 0)))
            except httpx.ConnectError as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise PgcError(
                        "the service's certificate is not signed by an authority that is trusted here; give --ca FILE"
                    ) from None
                why = str(error)
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
            wait *= random.uniform(0.5, 1.5)
            if time.monotonic() + wait > until:
                raise PgcError(f"gave up after {self._patience:g} s: {why}")
            self._sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)


def run_device(service: ServiceClient, device: Device, most: int | None = None) -> tuple[int, str]:
    """Answer offers until the token or the device's budget is used up. How many were accepted, and why it ended.

    Killed at any point, it can be started again: the service hands out the same offer until it is answered, and the device's
    ledger has the bytes if they were paid for.
    """
    accepted = 0
    while most is None or accepted < most:
        offer = service.offer()
        if offer is None:
            return accepted, "this token's reports are used up"
        report = device.answer(offer)
        if isinstance(report, Refusal):
            return accepted, report.reason
        accepted += service.submit(report) in ("accepted", "duplicate")
    return accepted, f"{most} reports were asked for"


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except Exception:
        return answer.text[:100]
