"""Log lines: as text or as JSON, with a time, a level and, where there is one, a request.

Lines that strangers can cause are limited in rate: garbage must not fill a disk.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO

LINES = 10
"""Lines with the same text that are written in one `PERIOD`."""
PERIOD = 60.0
"""Seconds."""
TEXTS = 1000
"""Texts that are remembered, at most."""
OURS = {"ours": True}
"""Marks a line (`extra=OURS`) that no stranger causes."""


def set_up_logs(options: dict[str, str]) -> None:
    """Writes log lines to standard error. `options` has a `level`, and a `format`: text or json."""
    handler = ToStandardError()
    lines = "%(asctime)s %(levelname)s %(message)s%(named)s"
    as_text = logging.Formatter(lines, defaults={"named": ""})
    handler.setFormatter(AsJson() if options["format"] == "json" else as_text)
    handler.addFilter(Limited())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("pgc.service").setLevel(options["level"].upper())


class ToStandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at the moment, which embedding programs exchange."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Standard error as it is now."""
        return sys.stderr


class AsJson(logging.Formatter):
    """A line of JSON for each message."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns a message as one line of JSON."""
        said = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "process": record.process,
        }
        if (request := getattr(record, "request", None)) is not None:
            said["request"] = request
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


class Limited(logging.Filter):
    """Passes the first lines of each text in a period; says at the next one how many it left out.

    Texts are those before arguments are filled in, so strangers cannot make up new ones. Lines of
    the service's own (`OURS`) always pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Says whether a line is written."""
        if getattr(record, "ours", False):
            return True
        text, now = str(record.msg), self._clock()
        if len(self._seen) >= TEXTS:
            old = [seen for seen, (begun, _) in self._seen.items() if now >= begun + PERIOD]
            for seen in old or list(self._seen):
                del self._seen[seen]
        begun, count = self._seen.get(text, (now, 0))
        if now >= begun + PERIOD:
            if count > LINES:
                record.msg = f"{text} (and {count - LINES} more like it in the time before)"
            begun, count = now, 0
        self._seen[text] = begun, count + 1
        return count < LINES
