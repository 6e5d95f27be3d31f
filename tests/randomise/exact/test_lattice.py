"""Laplace on a lattice: the bound holds in integers, the noise is as simulated, the floating-point attack finds nothing."""

import math

import numpy as np
import pytest
from scipy import stats

from pgc.randomise.exact import lattice
from pgc.randomise.exact.lattice import decode_laplace, on_lattice, radius, release_laplace
from pgc.randomise.mechanisms.registry import make_mechanism
from tests.chance import agrees, differs

UNITS = radius(1.0)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-3, 1.0, 1e30, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("clip", [0.01, 1.0, 3.0])
def test_the_integers_never_exceed_the_bound(size, clip, rng):
    for dim in (1, 3, 112, 5000):
        gradient = size * rng.standard_normal(dim)
        numbers = on_lattice(gradient, clip, UNITS)
        assert len(numbers) == dim and sum(map(abs, numbers)) <= UNITS
    assert on_lattice(np.array([clip / 2]), clip, UNITS) == [UNITS]
    assert on_lattice(np.array([-1e9]), clip, UNITS) == [-UNITS]


def test_the_bound_does_not_hang_on_the_clip(monkeypatch):
    """Were the clip wrong by a unit, nothing of the gradient would be left, rather than too much."""
    monkeypatch.setattr(lattice, "clip_l1", lambda vector, radius: vector)
    assert on_lattice(np.array([0.5, 1 / UNITS]), 1.0, UNITS) == [0, 0]
    assert on_lattice(np.array([0.5, 0.0]), 1.0, UNITS) == [UNITS, 0]


def test_a_small_gradient_is_kept_and_a_large_one_keeps_its_direction(rng):
    g = rng.normal(size=8)
    small = 0.1 * g / np.abs(g).sum()
    np.testing.assert_allclose(
        decode_laplace(on_lattice(small, 1.0, UNITS), 1.0, 1.0), small, atol=0.5 / UNITS
    )
    large = decode_laplace(on_lattice(1e6 * g, 1.0, UNITS), 1.0, 1.0)
    np.testing.assert_allclose(large, g / np.abs(g).sum() / 2, atol=0.5 / UNITS)


def test_released_and_simulated_noise_are_alike(rng):
    g, n = np.array([0.2, -0.1, 0.05, 0.0]), 5000
    released = (
        np.array([decode_laplace(release_laplace(g, 1.0, 2.0), 1.0, 2.0) for _ in range(n)]) - g
    )
    mechanism = make_mechanism("laplace", dim=4, epsilon=2.0, clip=1.0)
    words = rng.integers(0, 2**32, (n, 4), np.uint32)
    simulated = np.array([mechanism.randomize(g, np.zeros(0, np.uint32), w) for w in words]) - g
    assert agrees(stats.ks_2samp(released.ravel(), simulated.ravel()).pvalue)
    sizes = np.abs(released).ravel(), 1.2 * np.abs(simulated).ravel()
    assert differs(stats.ks_2samp(*sizes).pvalue)  # a fifth more noise would be noticed


def naive(gradient, scale, rng):
    """Laplace noise as textbooks draw it, by inversion of a double."""
    u = rng.random() or 0.5
    return gradient + scale * (math.log(u) if rng.random() < 0.5 else -math.log(u))


def could_be(report, gradient, scale):
    """Whether the naive sampler, whose u is a multiple of 2⁻⁵³, could have made this report of this gradient."""
    distance = abs(report - gradient) / scale
    near = round(math.exp(-distance) * 2**53)
    for k in range(max(1, near - 4), near + 5):
        noise = scale * math.log(k / 2**53)
        if gradient + noise == report or gradient - noise == report:
            return True
    return False


def test_the_floating_point_attack_tells_gradients_apart_and_finds_nothing_on_the_lattice(rng):
    """Which of two gradients made a report, from the last bits of its numbers (Mironov 2012)."""
    one, other, scale = np.array([0.3, -0.2, 0.05, 0.11]), np.array([0.12, 0.1, -0.21, 0.07]), 1.0
    told = 0
    for _ in range(200):
        report = [naive(g, scale, rng) for g in one]
        mine, theirs = (
            all(could_be(y, g, scale) for y, g in zip(report, gradient, strict=True))
            for gradient in (one, other)
        )
        told += mine and not theirs
    assert told > 180
    # The same attack on what is released. ε = 1 lets an adversary be right in 73 % of all cases, and no attack in more.
    right = wrong = 0
    for _ in range(300):
        numbers = release_laplace(one, 1.0, 1.0)
        assert all(type(y) is int for y in numbers)
        report = decode_laplace(numbers, 1.0, 1.0)
        mine, theirs = (
            all(could_be(y, g, scale) for y, g in zip(report, gradient, strict=True))
            for gradient in (one, other)
        )
        right, wrong = right + (mine and not theirs), wrong + (theirs and not mine)
    assert agrees(
        stats.binomtest(right, max(1, right + wrong), math.e / (1 + math.e), "greater").pvalue
    )
    # And its last bits say nothing.
    odd = [
        sum(y % 2 for _ in range(250) for y in release_laplace(g, 1.0, 1.0)) for g in (one, other)
    ]
    assert agrees(stats.fisher_exact([[odd[0], 1000 - odd[0]], [odd[1], 1000 - odd[1]]]).pvalue)
