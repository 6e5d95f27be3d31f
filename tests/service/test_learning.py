"""A population learns through the service as it does in the engine: benchmarks/equivalence.py, short, and its numbers."""

import importlib
import json
from pathlib import Path

from tests.service.test_service import free_port


def test_the_service_learns():
    """At ε = 8, 100 reports. Threads and the operating system's bits make each run another one, so the margin is wide: of 1,024
    such trials in the engine (`embedded(8.0, 1024, 100)`) the worst scored 195, and θ_0 has about 60."""
    equivalence = importlib.import_module("benchmarks.equivalence")
    scores = equivalence.through_the_service(epsilon=8.0, trials=1, reports=100, port=free_port())
    assert scores.mean() > 120, scores


def test_what_was_measured_is_within_ten():
    found = json.loads((Path(__file__).parents[2] / "docs/results/equivalence.json").read_text())
    assert -10 < found["low"] <= found["high"] < 10 and found["trials"] >= 100
