import jax.numpy as jnp
import numpy as np
import pytest

from pgc import spaces
from pgc.deliver.schedule import Schedule


def test_the_papers_alpha_schedule():
    n = jnp.array([0, 90, 450, 900, 5000])
    np.testing.assert_allclose(Schedule(0.5, 1800).alpha(n), [0.5, 0.45, 0.25, 0, 0], atol=1e-7)


def test_behaviour_mixes_policy_and_chance():
    logits = jnp.log(jnp.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(spaces.behaviour(logits, 0.0, False), [0.2, 0.3, 0.5], rtol=1e-6)
    np.testing.assert_allclose(spaces.behaviour(logits, 0.3, False), [0.24, 0.31, 0.45], rtol=1e-6)
    np.testing.assert_allclose(spaces.behaviour(logits, 0.3, True), [0.1, 0.1, 0.8], rtol=1e-6)


def test_ties_go_to_the_lowest_action():
    assert spaces.behaviour(jnp.array([1.0, 1.0]), 0.0, True).tolist() == [1.0, 0.0]


def test_greedy_can_differ_by_lane():
    logits = jnp.array([[0.0, 0.0], [1.0, 1.0]])
    out = spaces.behaviour(logits, jnp.array([0.0, 0.5]), jnp.array([True, False]))
    assert out[:, 0].tolist() == [0.0, 1.0]
    assert out[1, 1] == pytest.approx(0.5 * 0.7310586 + 0.25)


def test_one_uniform_number_chooses_with_the_right_frequencies():
    probabilities = jnp.array([0.1, 0.6, 0.3])
    uniform = (jnp.arange(10_000) + 0.5) / 10_000
    actions = spaces.choose(jnp.broadcast_to(probabilities[:, None], (3, 10_000)), uniform)
    np.testing.assert_allclose(np.bincount(np.asarray(actions)) / 10_000, probabilities, atol=1e-3)
