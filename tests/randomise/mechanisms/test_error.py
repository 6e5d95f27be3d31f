"""Each mechanism's stated error is what its reports show, and `best` picks by it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.errors import PgcError
from pgc.randomise.mechanisms.privunit import PrivUnit
from pgc.randomise.mechanisms.prs import ProjectedRandomSign
from pgc.randomise.mechanisms.prs_sign import best_reduced_dim
from pgc.randomise.mechanisms.registry import (
    MECHANISMS,
    best,
    find_mechanism,
    fitted,
    make_mechanism,
    register,
)
from tests.conftest import more

HONEST = [
    name
    for name in MECHANISMS
    if name not in ("none", "laplace-coordinatewise", "laplace-coordinatewise-wide", "laplace-l2")
]
REPORTS = 40_000


def reports(mechanism, gradient, rng, n=REPORTS, literal=False):
    """Many reports of one gradient, (n, d)."""
    public, secret = (
        (mechanism.public_words, mechanism.secret_words) if literal else mechanism.simulated_words
    )
    words = [rng.integers(2**32, size=(n, w), dtype=np.uint32) for w in (public, secret)]
    act = mechanism.randomize if literal else mechanism.simulate
    return np.asarray(
        jax.jit(jax.vmap(lambda p, s: act(jnp.asarray(gradient, jnp.float32), p, s)))(*words),
        np.float64,
    )


def direction(dim, rng):
    g = rng.normal(size=dim)
    return g / np.linalg.norm(g)


def check(mechanism, gradient, rng, bias=0.0):
    """The mean squared error within four standard errors of the stated one; the mean likewise (and within a known bias)."""
    made = reports(mechanism, gradient, rng)
    squares = np.sum((made - gradient) ** 2, axis=1)
    stated, spread = mechanism.error(np.linalg.norm(gradient)), squares.std() / math.sqrt(len(made))
    assert abs(squares.mean() - stated) <= 4 * spread + 0.002 * stated + bias * stated
    assert stated * 1.2 > squares.mean() > stated / 1.2  # the test would notice a fifth
    off = made.mean(axis=0) - gradient
    assert np.sum(off**2) <= (stated / len(made)) * 2.5 + bias
    return squares.mean()


@pytest.mark.parametrize(
    "where", [(4, 0.5), (30, 2.0), *more((4, 2.0), (4, 8.0), (30, 0.5), (30, 8.0))]
)
@pytest.mark.parametrize("name", HONEST)
def test_the_stated_error_is_the_simulated_one_and_reports_are_unbiased(name, where, rng):
    dim, epsilon = where
    g = direction(dim, rng)
    mechanism = fitted(name, dim=dim, epsilon=epsilon)
    if name == "prs":
        mechanism = make_mechanism(
            "prs", dim=dim, epsilon=epsilon, clip=12.0, unbiased=True
        )  # nothing is clipped
    if name == "laplace":
        mechanism = make_mechanism("laplace", dim=dim, epsilon=epsilon, clip=2 * np.abs(g).sum())
    if name == "prs-sign":
        dim = 112  # a direction that is spread over many coordinates
        g, mechanism = direction(dim, rng), fitted(name, dim=dim, epsilon=epsilon)
    if name == "piecewise":
        mechanism = make_mechanism("piecewise", dim=dim, epsilon=epsilon, clip=np.abs(g).max())
    check(mechanism, g, rng, bias=0.02 if name == "prs-sign" else 0.0)


def test_prs_as_printed_has_the_stated_error_of_a_scaled_estimate(rng):
    g = direction(20, rng)
    mechanism = ProjectedRandomSign(dim=20, epsilon=5.0, clip=12.0, reduced_dim=2)
    made = reports(mechanism, g, rng)
    squares = np.sum((made - g) ** 2, axis=1)
    assert abs(squares.mean() - mechanism.error()) <= 4 * squares.std() / math.sqrt(len(made))
    np.testing.assert_allclose(made.mean(axis=0) @ g, 2 * math.tanh(5 / 4), rtol=0.35)


@pytest.mark.parametrize("name", ["duchi", "index", "privunit", "privunitg"])
@pytest.mark.parametrize("norm", [0.0, 0.4, 1.5])
def test_the_norm_lift_keeps_the_norm_up_to_its_radius(name, norm, rng):
    g = norm * direction(5, rng)
    mechanism = make_mechanism(name, dim=5, epsilon=2.0, clip=1.5, lift=True)
    check(mechanism, g, rng)


def test_the_lift_is_only_for_directions():
    with pytest.raises(PgcError, match="norm lift works with"):
        make_mechanism("laplace", dim=5, epsilon=1.0, clip=1.0, lift=True)


def test_known_values_at_the_papers_dimension():
    """Relative squared error of the mean of 100 reports (Bhowmick et al. 2018; Asi et al. 2022), as tabulated before."""
    table = {
        "laplace": (641, 165, 25.5, 6.29), "prs": (47, 17.4, 6.9, 3.5), "prs-sign": (8.23, 3.02, 1.21, 0.60),
        "duchi": (8.19, 3.01, 1.79, 1.74), "privunitg": (7.09, 1.81, 0.327, 0.105), "privunit": (7.05, 1.80, 0.321, 0.100),
    }  # fmt: skip
    for name, row in table.items():
        ours = [fitted(name, dim=112, epsilon=e).error() / 100 for e in (1.0, 2.0, 5.0, 10.0)]
        np.testing.assert_allclose(ours, row, rtol=0.035)
    ours = [
        make_mechanism("index", dim=112, epsilon=e, clip=1.0, code_size=4096)
        for e in (1.0, 2.0, 5.0, 10.0)
    ]
    np.testing.assert_allclose(
        [q.error() / 100 for q in ours], (7.06, 1.80, 0.321, 0.103), rtol=0.01
    )
    assert [q.members for q in ours] == [1418, 888, 134, 3]
    gammas = [PrivUnit(dim=112, epsilon=e).side.gamma for e in (1.0, 2.0, 5.0, 10.0)]
    np.testing.assert_allclose(gammas, (0.0376, 0.0744, 0.1739, 0.3015), atol=2e-4)


def test_a_cap_in_the_plane_is_an_arc():
    """In two dimensions the share of a cap is known: q = arccos(γ)/π. No grid may hide an error there."""
    gamma, q, p = PrivUnit(dim=2, epsilon=1.0).side
    assert q == pytest.approx(math.acos(gamma) / math.pi, abs=2e-4)
    assert p / q / ((1 - p) / (1 - q)) == pytest.approx(math.e, rel=1e-9)


def test_best_is_the_least_error_and_privunit_is_optimal():
    for dim in (2, 4, 112):
        for epsilon in (0.1, 1.0, 10.0):
            chosen = best(dim, epsilon)
            others = [fitted(name, dim=dim, epsilon=epsilon).error() for name in HONEST]
            assert chosen.name == "privunit" and chosen.error() == min(others)
    assert best(112, 1.0, most_bytes=2).name == "index"
    assert best(112, 5.0, most_bytes=1).report_bytes == 1
    assert best(1, 1.0).dim == 1
    with pytest.raises(PgcError, match="bytes"):
        best(4, 1.0, most_bytes=0)


def test_the_better_reduced_dimension_is_near_the_best():
    for epsilon in (0.5, 1, 2, 3, 5, 8, 10, 20):
        errors = [
            make_mechanism("prs-sign", dim=112, epsilon=epsilon, clip=1, reduced_dim=k).error()
            for k in range(1, 30)
        ]
        ours = make_mechanism("prs-sign", dim=112, epsilon=epsilon, clip=1)
        assert ours.reduced_dim == best_reduced_dim(epsilon, 112)
        assert ours.error() <= 1.03 * min(errors)


def test_nobody_replaces_a_mechanism_under_its_name():
    """A class of the same name from elsewhere would be run, and stated, as if it were ours."""
    impostor = type("Duchi", (MECHANISMS["duchi"],), {"__module__": "elsewhere"})
    with pytest.raises(PgcError, match="already"):
        register(impostor)
    assert register(MECHANISMS["duchi"]) is MECHANISMS["duchi"]


def test_an_unknown_name_and_a_class_of_ones_own():
    assert find_mechanism("pgc.randomise.mechanisms.duchi:Duchi").name == "duchi"
    for name in (
        "nothing",
        "no.such:Module",
        ":nothing",
        "pgc.randomise.mechanisms.duchi:Nope",
        "math:sqrt",
    ):
        with pytest.raises(PgcError):
            find_mechanism(name)
