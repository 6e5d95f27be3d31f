"""The queries of deploy/grafana/pgc.json and deploy/prometheus/alerts.yaml, and how a running Prometheus is asked them.

A query of the dashboard must yield a number. An alert is silent in a healthy service; so each of its selectors must yield
something instead. What may be empty is listed here, with the reason.
"""

from __future__ import annotations

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

MAY_BE_EMPTY = {
    r'status="500"': "the series begins with the first mistake",
    r'status=~"429\|503"': "nothing is refused for load",
    r'status!~"410\|429"': "nobody sent nonsense",
    r"offset": "Prometheus did not run yet at that time",
    r"success_ratio|success_margin": "the model asks for no noisy boolean",
    r"pgc_updates_here.* == 1 and": "an annotation: whenever another front end takes over",
    r"ALERTS": "no alert fires",
}
"""Patterns of queries that may be empty in a healthy service, and why."""
VARIABLES = {"$job": "pgc", "$model": ".+", "${job}": "pgc", "${model}": ".+"}
SELECTOR = re.compile(r"(?<![\w:])(?:pgc|up|process|ALERTS|node)[\w:]*(?:\{[^}]*\})?(?=[^\w:(]|$)")


class Asked(NamedTuple):
    """A query, and where it is from."""

    where: str
    query: str


class Said(NamedTuple):
    """What Prometheus said: an error, or how many series, and the first of their values."""

    error: str | None
    series: int
    value: str


def of_dashboard(board: dict[str, Any], rate: str) -> Iterator[Asked]:
    """Yields the queries of all panels, annotations and variables, with variables filled in."""

    def filled(text: str) -> str:
        for name, value in (
            VARIABLES | {"$__rate_interval": rate, "$__interval": rate, "$__range": "15m"}
        ).items():
            text = text.replace(name, value)
        return text

    for panel in panels_of(board):
        for target in panel.get("targets", []):
            yield Asked(f"panel «{panel['title']}» {target['refId']}", filled(target["expr"]))
    for note in board["annotations"]["list"]:
        if "expr" in note:
            yield Asked(f"annotation «{note['name']}»", filled(note["expr"]))
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert inner, f"a variable that is not label_values(…): {variable['query']}"
            yield Asked(
                f"variable «{variable['name']}»", f"count by ({inner[2]}) ({filled(inner[1])})"
            )


def panels_of(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields all panels, those in collapsed rows as well."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def of_rules(rules: dict[str, Any]) -> Iterator[tuple[Asked, list[Asked]]]:
    """Yields every rule's expression, and the selectors in it."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            name = rule.get("alert") or rule["record"]
            found = dict.fromkeys(SELECTOR.findall(_without_groupings(rule["expr"])))
            yield (
                Asked(f"rule {name}", rule["expr"]),
                [Asked(f"selector of {name}", one) for one in found],
            )


def _without_groupings(expr: str) -> str:
    return re.sub(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)", " ", expr)


def names(query: str) -> set[str]:
    """Returns the metrics that a query uses."""
    bare = re.sub(r"\{[^}]*\}", " ", _without_groupings(query))
    return {
        found
        for found in re.findall(r"[a-zA-Z_:][\w:]*", bare)
        if found.startswith(("pgc", "process_", "up"))
    }


def ask(server: str, query: str) -> Said:
    """Asks Prometheus for the value of a query now."""
    data = urllib.parse.urlencode({"query": query}).encode()
    try:
        with urllib.request.urlopen(f"{server}/api/v1/query", data, timeout=20) as answer:
            found = json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        return Said(json.load(error)["error"], 0, "")
    result = found["result"] if found["resultType"] == "vector" else [{"value": found["result"]}]
    values = [float(one["value"][1]) for one in result]
    finite = [value for value in values if not math.isnan(value)]
    return Said(None, len(finite), ", ".join(f"{value:.4g}" for value in finite[:4]))


def excuse(query: str) -> str | None:
    """Returns why a query may be empty."""
    return next((why for pattern, why in MAY_BE_EMPTY.items() if re.search(pattern, query)), None)
