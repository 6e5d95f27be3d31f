"""A population learns through the service as it does in the engine: benchmarks/equivalence.py, short, and its numbers."""

import importlib
import json
from pathlib import Path

from tests.service.test_service import free_port


def test_the_service_learns_as_the_engine_does():
    equivalence = importlib.import_module("benchmarks.equivalence")
    found = equivalence.compare(epsilon=1.0, trials=4, reports=150, port=free_port())
    assert found["embedded"] > 150  # θ_0 has about 60
    assert found["service"] > 150 and found["low"] <= 20 and found["high"] >= -20, found


def test_what_was_measured_is_within_ten():
    found = json.loads((Path(__file__).parents[2] / "docs/results/equivalence.json").read_text())
    assert -10 < found["low"] <= found["high"] < 10 and found["trials"] >= 100
