"""The action law in NumPy is that of the definition (`spaces.py`), and a probability that is wrong by a fifth would show."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from pgc.local_training import numpy_actions
from pgc.local_training.recipe import Recipe
from pgc.spaces import Gaussian, behaviour

N = 100_000
LOGITS = np.array([0.3, -0.5, 1.1])
DISCRETE = Recipe(bounds=((-1, 1),), actions=3, max_steps=10, score_threshold=1)
STEERED = Recipe(
    bounds=((-1, 1),), actions=((-2.0, 4.0),), max_steps=10, score_threshold=1, std=0.4
)
SURE = 1e-9
"""Seeds are fixed, so a failure is never chance; and what is wrong by a fifth lies far beyond this level."""


def drawn(recipe, outputs, alpha, greedy):
    u = np.random.default_rng(0).random((N, numpy_actions.uniforms(recipe)))
    rows = np.tile(outputs, (N, 1))
    return numpy_actions.draw(recipe, rows, u, np.full(N, alpha), np.full(N, greedy))


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_discrete_actions_have_the_probabilities_of_the_definition(alpha, greedy):
    p = np.asarray(behaviour(jnp.asarray(LOGITS), alpha, greedy), float)
    counts = np.bincount(drawn(DISCRETE, LOGITS, alpha, greedy), minlength=3)
    possible = p > 0
    assert counts[~possible].sum() == 0
    if possible.sum() == 1:
        return
    expected = N * p[possible] / p[possible].sum()
    assert stats.chisquare(counts[possible], expected).pvalue > SURE
    wrong = expected * np.where(np.arange(len(expected)) == 0, 1.2, 1.0)
    assert stats.chisquare(counts[possible], wrong * N / wrong.sum()).pvalue < SURE


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_continuous_actions_have_the_law_of_the_definition(alpha):
    mean, law = 0.25, Gaussian((-2.0,), (4.0,), std=0.4)
    words = np.random.default_rng(1).integers(2**32, size=(law.word_pairs, 2, N), dtype=np.uint32)
    pairs = [(jnp.asarray(a), jnp.asarray(b)) for a, b in words]

    def defined(std):
        return np.asarray(
            Gaussian((-2.0,), (4.0,), std=std).draw(jnp.full((1, N), mean), pairs, alpha, False)
        )[0]

    ours = drawn(STEERED, np.array([mean]), alpha, False)[:, 0]
    assert stats.ks_2samp(ours, defined(0.4)).pvalue > SURE
    assert stats.ks_2samp(ours, defined(0.4 * 1.2)).pvalue < SURE
    assert drawn(STEERED, np.array([mean]), 0.0, True) == pytest.approx(
        1 + 3 * mean
    )  # the mean, in units of half the range
