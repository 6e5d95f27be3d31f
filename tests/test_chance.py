"""The suite's own rate of false alarms."""

import pytest

from tests import chance


def test_a_false_alarm_comes_less_than_once_in_a_million_runs():
    assert chance.LEVEL * sum(chance.LOOKS.values()) < 1e-6


def test_a_file_that_is_not_listed_may_not_look_at_chance():
    with pytest.raises(AssertionError, match="compares more often"):
        chance.agrees(0.5)
