"""OpenDP as the oracle: its discrete Laplace noise, and its privacy map, agree with ours."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from pgc.randomise.exact.discrete_laplace import discrete_laplace
from pgc.randomise.exact.lattice import SCALE, decode_laplace, radius, release_laplace
from tests.chance import agrees, differs

N = 20_000


@pytest.fixture(scope="module", autouse=True)
def features():
    dp.enable_features("contrib")


def test_the_noise_is_opendps():
    """Integers with the same law, at a scale small enough to see single points and at the one that is released."""
    for scale in (3, SCALE):
        theirs = dp.m.make_laplace(
            dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=float(scale)
        )
        mine = np.array([discrete_laplace(Fraction(scale)) for _ in range(N)])
        other = np.array([theirs(0) for _ in range(N)])
        assert agrees(stats.ks_2samp(mine, other).pvalue) and agrees(
            stats.ks_2samp(np.abs(mine), np.abs(other)).pvalue
        )
        assert differs(
            stats.ks_2samp(1.2 * np.abs(mine), np.abs(other)).pvalue
        )  # a fifth would be noticed


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_sensitivity_costs_what_opendp_says(epsilon):
    """2N lattice points at this scale cost ε in OpenDP's map, and no more."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    cost = dp.m.make_laplace(*space, scale=float(SCALE)).map(2 * radius(epsilon))
    assert cost <= epsilon * (1 + 1e-9) and cost == pytest.approx(epsilon, rel=1e-4)


def test_a_released_gradient_is_distributed_as_opendps_float_mechanism():
    """OpenDP's own float path, with its own lattice and the same clip."""
    g, clip, epsilon = np.array([0.2, -0.1, 0.05]), 1.0, 1.0
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=3), dp.l1_distance(T=float)
    theirs = dp.m.make_laplace(*space, scale=clip / epsilon * 1.000001, k=-40)
    assert theirs.map(clip) <= epsilon
    mine = np.array(
        [decode_laplace(release_laplace(g, clip, epsilon), clip, epsilon) for _ in range(N // 2)]
    )
    other = np.array([theirs(g.tolist()) for _ in range(N // 2)])
    for i in range(3):
        assert agrees(stats.ks_2samp(mine[:, i], other[:, i]).pvalue)
    noise = [np.abs(reports - g).ravel() for reports in (mine, other)]
    assert agrees(stats.ks_2samp(*noise).pvalue) and differs(
        stats.ks_2samp(1.2 * noise[0], noise[1]).pvalue
    )
