"""The device's side of the service: fetch an offer, answer it, send the report until it is
acknowledged, always the same bytes.

    with ServiceClient(url, token) as service:
        run_device(service, Device.open("ledger.db", player=player, clock=service.clock))

Of the optional packages it needs only httpx, because devices embed it.
"""

from __future__ import annotations

import email.utils
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Any

import httpx

from pgc.device.device import Device, Refusal
from pgc.errors import PgcError
from pgc.service import is_loopback
from pgc.wire.offer import LARGEST_OFFER

log = logging.getLogger("pgc.device")
CHANCE = random.SystemRandom()
"""The source of random pauses. It is not Python's shared generator, which a world may seed and use:
the pauses would then reveal how it did so."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
ANSWERS = (200, 404, 409, 410)
"""Status codes that say what became of a request; `LATER` and 5xx are temporary; the others are
mistakes that no retry mends."""
LATER = (408, 429)
"""Status codes below 500 that are temporary too: the body came too slowly, or too much waits."""


class ServiceClient:
    """One device's connection to a service.

    A request that fails for a temporary reason is repeated, after random pauses that grow, until
    `patience` seconds have passed; then `PgcError` is raised.
    """

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
        """Prepares a connection to the service at `url`, with a device's token.

        `ca` is a file with the certificate of the authority to trust, if it is not a public one.
        `patience` is the number of seconds to keep trying. `sleep` is called to pause.
        """
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise PgcError(f"{url} is no address ({error})") from None
        if address.scheme != "https" and not (
            address.scheme == "http" and is_loopback(address.host)
        ):
            raise PgcError(
                f"{url} is not https://…: reports are private by themselves, a token is not"
            )
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise PgcError("that is no token; pgc tokens issue prints some")
        if not patience > 0:
            raise PgcError(f"patience is a number of seconds, not {patience}")
        headers = {"authorization": f"Bearer {token.strip()}", "accept-encoding": "identity"}
        # A proxy of the environment would read the token of a request without TLS.
        trust = address.scheme == "https"
        self._http = httpx.Client(
            base_url=address, verify=_trusting(ca), timeout=30, headers=headers, trust_env=trust
        )
        self._url, self._model, self._patience, self._sleep = url, model, patience, sleep
        self._ahead, self._told = 0.0, False

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def clock(self) -> float:
        """The service's time, as its last answer told it: a device's own clock may be wrong."""
        return time.monotonic() + self._ahead if self._ahead else time.time()

    def card(self) -> dict[str, Any]:
        """Returns what the service publishes about the model."""
        made = self._json(self._ask("GET", "", b""))
        if not isinstance(made, dict):
            raise PgcError(f"{self._url} does not answer as a pgc service does")
        return made

    def offer(self) -> bytes | None:
        """Returns an offer; None if this token's reports are used up."""
        answer = self._ask("POST", "/offers", b"")
        return None if answer.status_code == 410 else answer.content

    def submit(self, report: bytes) -> str:
        """What became of a report: "accepted", "duplicate", or why it does not count."""
        return _detail(self._ask("POST", "/reports", report))

    def pause(self, seconds: float) -> None:
        """Waits for about so long: devices that wait must not all come back at once."""
        self._sleep(seconds * CHANCE.uniform(0.5, 1.5))

    def _ask(self, method: str, path: str, body: bytes) -> httpx.Response:
        """Sends a request until there is a final answer (`ANSWERS`), and returns it."""
        pause, until, why = FIRST_PAUSE, time.monotonic() + self._patience, ""
        while True:
            least = 0.0
            try:
                answer = _within(
                    until - time.monotonic(),
                    lambda: self._fetch(method, f"/v1/models/{self._model}{path}", body),
                )
                self._note_time(answer)
                if answer.status_code in ANSWERS:
                    if answer.status_code == 404 and path != "/reports":
                        raise PgcError(
                            f"{self._url} has no model '{self._model}' ({_detail(answer)})"
                        )
                    return answer
                why = f"{answer.status_code}: {_detail(answer)}"
                if answer.status_code < 500 and answer.status_code not in LATER:
                    raise PgcError(f"the service refuses: {_detail(answer)}")
                least = _seconds(answer.headers.get("retry-after"))
            except (httpx.InvalidURL, httpx.UnsupportedProtocol):
                raise PgcError(f"there can be no model '{_printable(self._model)}'") from None
            except httpx.HTTPError as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise PgcError(_about_certificate(str(error))) from None
                why = str(error) or type(error).__name__
            if not self._told:
                self._told = True
                log.warning(
                    "%s does not answer as it should (%s); trying again for up to %g s",
                    *(self._url, why, self._patience),
                )
            # later than the service asked for, never earlier: devices must not come back at once
            chance = CHANCE.uniform(0.5, 1.5)
            wait = max(pause * chance, least * (0.5 + chance))
            if time.monotonic() + wait > until:
                raise PgcError(f"gave up on {self._url} after {self._patience:g} s: {why}")
            self._sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _fetch(self, method: str, path: str, body: bytes) -> httpx.Response:
        """Returns the answer to one request; refuses one that is packed or too long."""
        data = bytearray()  # bytes would be copied with every piece
        with self._http.stream(method, path, content=body) as answer:
            if "content-encoding" in answer.headers:
                raise PgcError(f"{self._url} does not answer as a pgc service does")
            for piece in answer.iter_raw():
                data += piece
                if len(data) > LARGEST_OFFER:
                    raise PgcError(f"{self._url} answers with more than any offer has")
            return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(data))

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except (ValueError, RecursionError):
            return None

    def _note_time(self, answer: httpx.Response) -> None:
        try:
            told = email.utils.parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (KeyError, ValueError, OverflowError, TypeError):
            return
        self._ahead = told - time.monotonic()


def run_device(service: ServiceClient, device: Device, most: int | None = None) -> tuple[int, str]:
    """Answers offers until the token or the device's budget is used up. Returns how many reports
    were accepted, and why it ended.

    Killed at any point, it can be started again: the service hands out the same offer until it is
    answered, and the device's ledger has the bytes if they were paid for. A report that comes too
    late is paid for and not counted; the next offer is answered if the budget still affords it. A
    service that repeats an offer that it acknowledged gets the same bytes, after a pause that
    grows; they count once.
    """
    accepted, pause, before = 0, FIRST_PAUSE, b""
    while most is None or accepted < most:
        offer = service.offer()
        if offer is None:
            return accepted, "this token's reports are used up"
        if offer == before:
            service.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            pause = FIRST_PAUSE
        report = device.answer(offer)
        if isinstance(report, Refusal):
            return accepted, report.reason
        said = service.submit(report)
        if said in ("accepted", "duplicate"):
            accepted += offer != before
        else:
            log.warning("a report does not count: %s", said)
        before = offer
    return accepted, f"{most} reports were asked for"


def _within(seconds: float, work: Callable[[], httpx.Response]) -> httpx.Response:
    """Returns the result of `work()`, or raises a time-out after `seconds`.

    The limit also holds for a service that keeps sending, but very slowly.
    """
    made: list[httpx.Response | BaseException] = []

    def body() -> None:
        try:
            made.append(work())
        except BaseException as error:
            made.append(error)

    thread = threading.Thread(target=body, daemon=True, name="pgc request")
    thread.start()
    thread.join(max(0.0, seconds))
    if not made:
        raise httpx.ReadTimeout("the answer did not end")
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


@lru_cache(8)
def _trusting(ca: str | None) -> ssl.SSLContext:
    """Made once for all devices of a process: reading the authorities takes longer than
    a report.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise PgcError(f"{ca} cannot be read as a certificate ({error})") from None


def _about_certificate(said: str) -> str:
    reason = said.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or said
    if "not yet valid" in reason or "expired" in reason:
        return (
            f"the service's certificate is not good today ({reason}): is this device's clock right?"
        )
    if "ostname" in reason or "IP address" in reason:
        return f"the service's certificate is for another name ({reason})"
    return (
        f"the service's certificate is not signed by an authority that is trusted here ({reason}); "
        "give --ca FILE"
    )


def _detail(answer: httpx.Response) -> str:
    try:
        return _printable(str(answer.json()["detail"]))
    except Exception:
        return _printable(" ".join(answer.text[:100].split())) or f"status {answer.status_code}"


def _printable(words: str) -> str:
    """Returns text from the service without unprintable characters, cut to a length to show."""
    return "".join(c if c.isprintable() else "?" for c in words[:200])


def _seconds(retry_after: str | None) -> float:
    try:
        return min(float(retry_after or 0), LONGEST_PAUSE)
    except ValueError:
        return 0.0
