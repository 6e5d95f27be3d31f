"""The ceiling is what Bayes' rule gives, and an interval above it is called broken."""

import math

import numpy as np
import pytest

from pgc.robber.game import ERROR, Game, ceiling


@pytest.mark.parametrize("secrets", [2, 4, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_channel_of_this_epsilon_gives_more(secrets, epsilon):
    """The best guess from randomised response, which is extreme, reaches it; other channels stay below."""
    rng = np.random.default_rng(secrets)

    def best(channel):  # P(output | secret), (secrets, outputs)
        return channel.max(axis=0).sum() / secrets

    keeps = math.exp(epsilon) / (math.exp(epsilon) + secrets - 1)
    rest = (1 - keeps) / (secrets - 1)
    response = np.full((secrets, secrets), rest) + (keeps - rest) * np.eye(secrets)
    assert best(response) == pytest.approx(ceiling(epsilon, secrets))
    for _ in range(50):
        channel = np.exp(rng.uniform(0, epsilon / 2, (secrets, 30)))
        channel /= channel.sum(axis=1, keepdims=True)  # ratios are at most e^ε
        assert best(channel) <= ceiling(epsilon, secrets)


def test_the_interval_is_clopper_and_pearsons():
    game = Game.counted(np.arange(100) < 60, arm="x", epsilon=1.0)
    from scipy.stats import binom

    assert binom.sf(59, 100, game.low) == pytest.approx(ERROR / 2)
    assert binom.cdf(60, 100, game.high) == pytest.approx(ERROR / 2)
    nothing, everything = (
        Game.counted(np.full(9, right), arm="x", epsilon=1.0) for right in (False, True)
    )
    assert nothing.low == 0 and everything.high == 1


def test_what_a_game_says():
    def say(share, **about):
        right = np.arange(10_000) < share * 10_000
        return Game.counted(right, arm="x", **about).verdict

    assert say(0.70, epsilon=1.0) == "held" and say(0.735, epsilon=1.0) == "held"
    assert say(0.80, epsilon=1.0) == "broken"
    assert say(0.99, epsilon=1.0, breaks=True) == "expected"
    assert say(0.50, epsilon=1.0, breaks=True) == "missed"
    assert say(0.99, epsilon=1.0, bounded=False) == "not bounded"
    assert say(0.99, epsilon=math.inf) == "not bounded"
    assert say(0.60, epsilon=1.0, secrets=4) == "broken"
