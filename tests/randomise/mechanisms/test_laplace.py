"""Laplace: the right distribution, and tests that notice one wrong by a fifth."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from pgc.errors import PgcError
from pgc.randomise.mechanisms.clip import clip_l1
from pgc.randomise.mechanisms.laplace import Laplace, standard_laplace
from pgc.randomise.mechanisms.laplace_readings import CoordinatewiseLaplace
from pgc.randomise.mechanisms.registry import MECHANISMS, make_mechanism

NO_PUBLIC = np.zeros(0, np.uint32)


def noise(mechanism, rng, reports=400):
    g = np.zeros(mechanism.dim)
    words = rng.integers(2**32, size=(reports, mechanism.secret_words), dtype=np.uint32)
    return np.concatenate([mechanism.randomize(g, NO_PUBLIC, w) for w in words])


def fits(sample, scale):
    """Kolmogorov–Smirnov at level 0.001."""
    return stats.kstest(sample, stats.laplace(scale=scale).cdf).pvalue > 0.001


@pytest.mark.parametrize(("epsilon", "clip"), [(1.0, 0.01), (5.0, 0.01), (0.5, 2.0)])
def test_noise_has_scale_c_over_epsilon_and_a_fifth_more_or_less_is_noticed(epsilon, clip, rng):
    sample = noise(Laplace(dim=50, epsilon=epsilon, clip=clip), rng)
    assert fits(sample, clip / epsilon)
    assert not fits(sample, clip / epsilon * 1.2)
    assert not fits(sample, clip / epsilon / 1.2)


def test_coordinates_are_independent(rng):
    sample = noise(Laplace(dim=50, epsilon=1.0, clip=1.0), rng, 4000).reshape(4000, 50)
    correlation = np.corrcoef(sample.T) - np.eye(50)
    assert np.abs(correlation).max() < 5 / 4000**0.5


def test_epsilon_is_the_log_ratio_of_densities(rng):
    """For any two gradients the exact log density ratio is within ε, and the worst pair attains it."""
    q = Laplace(dim=6, epsilon=1.3, clip=0.7)
    y = rng.normal(size=(200, 6))

    def log_density(g):
        return -np.abs(y - q.prepare(np.asarray(g), NO_PUBLIC)).sum(axis=1) / q.scale

    worst = 0.0
    for _ in range(200):
        a, b = rng.normal(size=(2, 6)) * 10 ** rng.uniform(-2, 2)
        worst = max(worst, np.abs(log_density(a) - log_density(b)).max())
    assert worst <= q.guarantee.epsilon * (1 + 1e-9)
    y = np.full((1, 6), 0.0)
    y[0, 0] = 9.0
    extremes = log_density([9, 0, 0, 0, 0, 0]) - log_density([-9, 0, 0, 0, 0, 0])
    assert extremes[0] == pytest.approx(1.3, rel=1e-9)
    assert q.guarantee.epsilon == pytest.approx(1.3) and q.guarantee.honest


def test_coordinatewise_is_not_epsilon_ldp_and_says_so():
    q = CoordinatewiseLaplace(dim=112, epsilon=1.0, clip=0.01)
    assert (
        q.guarantee.epsilon == 112.0
        and q.guarantee.nominal_epsilon == 1.0
        and not q.guarantee.honest
    )
    assert "NOT" in q.guarantee.statement
    # The exact log density ratio between the two farthest gradients is d·ε.
    a, b = q.prepare(np.full(112, 9.0), NO_PUBLIC), q.prepare(np.full(112, -9.0), NO_PUBLIC)
    assert np.abs(a - b).sum() / q.scale == pytest.approx(112.0)


@pytest.mark.parametrize(
    ("name", "times", "farthest"),
    [
        ("laplace", 1.0, [9.0, 0.0, 0.0, 0.0]),
        ("laplace-coordinatewise", 4.0, [9.0, 9.0, 9.0, 9.0]),
        ("laplace-coordinatewise-wide", 8.0, [9.0, 9.0, 9.0, 9.0]),
        ("laplace-l2", 2.0, [9.0, 9.0, 9.0, 9.0]),
    ],
)
def test_each_reading_states_the_log_ratio_of_its_farthest_gradients(name, times, farthest, rng):
    q = make_mechanism(name, dim=4, epsilon=1.5, clip=0.3)
    assert q.guarantee.epsilon == pytest.approx(times * 1.5) and q.guarantee.honest == (times == 1)
    a = q.prepare(np.array(farthest), NO_PUBLIC)
    assert 2 * np.abs(a).sum() / q.scale == pytest.approx(q.guarantee.epsilon)
    for _ in range(300):  # and no two gradients are farther apart
        a, b = (
            q.prepare(rng.normal(size=4) * 10 ** rng.uniform(-3, 30), NO_PUBLIC) for _ in range(2)
        )
        assert np.abs(a - b).sum() / q.scale <= q.guarantee.epsilon * (1 + 1e-9)


def test_float32_draws_of_the_simulation_have_the_same_distribution(rng):
    words = rng.integers(2**32, size=20_000, dtype=np.uint32)
    in_jax = np.asarray(standard_laplace(jnp.asarray(words), jnp.zeros(1, jnp.float32)))
    np.testing.assert_allclose(in_jax, standard_laplace(words, np.zeros(1)), rtol=1e-4, atol=1e-6)
    assert fits(in_jax, 1.0) and not fits(in_jax, 1.2)
    extreme = standard_laplace(
        jnp.asarray([0, 1, 2**32 - 1], dtype=jnp.uint32), jnp.zeros(1, jnp.float32)
    )
    assert np.isfinite(extreme).all()


def test_the_answer_is_the_clipped_gradient_on_average(rng):
    q = Laplace(dim=3, epsilon=2.0, clip=1.0)
    g = np.array([2.0, -1.0, 1.0])
    words = rng.integers(2**32, size=(20_000, 3), dtype=np.uint32)
    mean = np.mean([q.randomize(g, NO_PUBLIC, w) for w in words], axis=0)
    np.testing.assert_allclose(mean, [0.25, -0.125, 0.125], atol=5 * 0.5 * 2**0.5 / 20_000**0.5)


@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize("g", [0.0, np.nan, np.inf, 3e38], ids=str)
def test_every_gradient_has_a_finite_report_in_both_arithmetics(name, g, rng):
    q = make_mechanism(name, dim=4, epsilon=1.0, clip=1.0)
    public = rng.integers(2**32, size=q.public_words, dtype=np.uint32)
    secret = rng.integers(2**32, size=q.secret_words, dtype=np.uint32)
    for xp in (np, jnp):
        out = q.randomize(xp.full(4, g, dtype=xp.float32), xp.asarray(public), xp.asarray(secret))
        assert out.shape == (4,) and np.isfinite(np.asarray(out)).all()


@pytest.mark.parametrize(
    "name", [name for name, kind in MECHANISMS.items() if kind.smallest_dim == 1]
)
def test_a_scalar_gradient_is_clipped_and_randomised_like_any_other(name):
    q = make_mechanism(name, dim=1, epsilon=1.0, clip=1.0)
    public, secret = (np.full(n, 2**32 - 1, np.uint32) for n in (q.public_words, q.secret_words))
    for xp in (np, jnp):
        scalar, vector = xp.asarray(9.0, dtype=xp.float32), xp.full(1, 9.0, dtype=xp.float32)
        out = q.randomize(scalar, xp.asarray(public), xp.asarray(secret))
        assert out.shape == (1,) and np.array_equal(
            out, q.randomize(vector, xp.asarray(public), xp.asarray(secret))
        )
        assert abs(float(out[0])) < 9


def test_a_gradient_of_another_size_is_refused():
    with pytest.raises(PgcError, match="4 numbers, not of 5"):
        Laplace(dim=4, epsilon=1.0, clip=1.0).randomize(
            np.zeros(5), NO_PUBLIC, np.zeros(4, np.uint32)
        )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(epsilon=0.0), "epsilon must be greater than 0"),
        (dict(epsilon=-1.0), "epsilon must be greater than 0"),
        (dict(epsilon=np.nan), "epsilon must be greater than 0"),
        (dict(clip=0.0), "clip must be between"),
        (dict(clip=np.nan), "clip must be between"),
        (dict(clip=np.inf), "clip must be between"),
        (dict(clip=1e-46), "clip must be between"),
        (dict(dim=0), "at least 1 dimension"),
        (dict(epsilon=np.inf), "finite epsilon"),
    ],
)
def test_bad_parameters_are_refused(settings, words):
    with pytest.raises(PgcError, match=words):
        Laplace(**{"dim": 4, "epsilon": 1.0, "clip": 1.0, **settings})


def test_an_unknown_mechanism_lists_the_known():
    with pytest.raises(PgcError, match="laplace, prs"):
        make_mechanism("gauss", dim=4, epsilon=1.0, clip=1.0)


def test_at_infinite_epsilon_every_mechanism_is_the_clip_alone(rng):
    g = rng.normal(size=8).astype(np.float32)
    for name in ("laplace", "prs", "none"):
        q = make_mechanism(name, dim=8, epsilon=np.inf, clip=0.3)
        assert q.name == "none" and q.guarantee.epsilon == np.inf
        out = q.randomize(g, NO_PUBLIC, NO_PUBLIC)
        assert np.array_equal(out, clip_l1(g, 0.15))
        np.testing.assert_allclose(out, g / max(1, np.abs(g).sum() / 0.15), rtol=1e-6)
    unclipped = make_mechanism("none", dim=8, epsilon=np.inf, clip=np.inf)
    assert np.array_equal(unclipped.randomize(g, NO_PUBLIC, NO_PUBLIC), g)


def test_the_scale_is_rounded_to_the_safe_side(rng):
    for epsilon in [0.91, 0.97, 1.82, 2.55, *rng.uniform(0.01, 10, size=500)]:
        q = Laplace(dim=3, epsilon=epsilon, clip=0.01)
        assert q.guarantee.honest and q.guarantee.epsilon > epsilon * (1 - 2e-7)
