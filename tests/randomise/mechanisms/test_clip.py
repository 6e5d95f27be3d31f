import jax.numpy as jnp
import numpy as np
import pytest

from pgc.randomise.mechanisms.clip import clip_elements, clip_l1

BOTH = pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])


@BOTH
def test_inside_the_ball_nothing_changes(xp):
    g = xp.asarray([0.1, -0.2, 0.0], dtype=xp.float32)
    assert np.array_equal(clip_l1(g, 0.5), g)


@BOTH
def test_outside_it_keeps_its_direction_and_gets_the_radius(xp):
    out = np.asarray(clip_l1(xp.asarray([3.0, -1.0], dtype=xp.float32), 0.5))
    np.testing.assert_allclose(out, [0.375, -0.125], rtol=1e-6)


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_becomes_zero(xp, bad):
    g = xp.asarray([1.0, bad, 2.0], dtype=xp.float32)
    assert not np.asarray(clip_l1(g, 0.5)).any()
    assert not np.asarray(clip_elements(g, 0.5)).any()


@BOTH
def test_huge_zero_and_one_dimensional(xp):
    huge = np.asarray(clip_l1(xp.asarray([3e38, -3e38, 0.0], dtype=xp.float32), 0.5))
    np.testing.assert_allclose(huge, [0.25, -0.25, 0.0], rtol=1e-5)
    assert not np.asarray(clip_l1(xp.zeros(5), 0.5)).any()
    np.testing.assert_allclose(clip_l1(xp.asarray([-7.0]), 0.5), [-0.5])


def test_no_two_clipped_gradients_are_farther_apart_than_the_diameter(rng):
    g = rng.normal(size=(300, 20)) * 10.0 ** rng.uniform(-3, 3, size=(300, 1))
    clipped = np.array([clip_l1(row, 0.5) for row in g])
    assert max(np.abs(a - b).sum() for a in clipped for b in clipped) <= 1.0 + 1e-12
    assert np.abs(np.array([clip_elements(row, 0.5) for row in g])).max() <= 0.5
