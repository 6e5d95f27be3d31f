"""Step 2 written from docs/play.md alone, by somebody who had not read the code: the page is enough to write a player."""

import json
from pathlib import Path

import numpy as np
import pytest

from . import page_player

VECTORS = Path(__file__).parents[2] / "docs" / "play-vectors.json"
CASES = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]

every_case = pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])


def task_of(case):
    return page_player.Task(case["recipe"], case["play"])


def array(numbers):
    return None if numbers is None else np.array(numbers, dtype=float)


def episodes_of(case):
    return [
        page_player.Episode(
            array(episode["observations"]),
            np.array(episode["actions"]),
            array(episode["rewards"]),
            episode["terminated"],
        )
        for episode in case["episodes"]
    ]


def assert_agrees(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=0)


@every_case
def test_the_network_at_the_first_observation(case):
    first = array(case["episodes"][0]["observations"][:1])
    _, outputs, values = page_player.forward(task_of(case), array(case["theta"]), first)
    assert_agrees(outputs[0], case["outputs"])
    assert_agrees(values[0], case["value"])


@every_case
def test_the_policy_of_the_second_episode(case):
    theta, xi = array(case["theta"]), array(case["xi"][1])
    if case["recipe"]["estimator"] == "evolution":
        theta = page_player.tried(task_of(case), theta, array(case["basis"]), xi)
    assert_agrees(theta, case["tried"])


@every_case
def test_z(case):
    theta, basis, xis = array(case["theta"]), array(case["basis"]), array(case["xi"])
    found = page_player.compute_z(task_of(case), theta, basis, xis, episodes_of(case))
    assert_agrees(found, case["z"])


def test_there_are_vectors_of_both_estimators():
    assert {case["recipe"]["estimator"] for case in CASES} == {"evolution", "policy-gradient"}
