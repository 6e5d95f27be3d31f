"""Public subspaces: W does what it is for, and depends on public values alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.config import configure
from pgc.config.problem import build
from pgc.deliver.subspace import FeatureSubspace, RandomSubspace, features
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.numerics.elimination import solve
from pgc.numerics.projection import project, to_theta_space
from pgc.numerics.public_states import public_points, public_states
from pgc.spaces import Categorical, Gaussian
from pgc.update.cap import OutputCap
from tests.conftest import more

BOUNDS = ((-2.0, 2.0), (0.0, 1.0), (-1.0, 3.0))
NET = ActorCritic(
    observation_dim=3, actions=Categorical(2), bounds=BOUNDS, biases=True, hidden=(24,)
)


def difference(theta, states, net=NET):
    outputs = jax.jit(lambda t, s: net.apply(net.unflatten(t), s)[0])(theta[:, None], states)
    return np.asarray(net.actions.contrasts @ np.asarray(outputs))


@pytest.mark.parametrize("degree", [2, *more(1)])
def test_a_step_along_a_column_adds_that_feature_to_the_output(degree, rng):
    theta = NET.init(jax.random.key(1))
    w = jax.jit(FeatureSubspace(policy=NET, bounds=BOUNDS, degree=degree).basis)(theta)
    points = rng.uniform(-1, 1, size=(3, 200)).astype(np.float32)
    low, high = np.asarray(BOUNDS).T[:, :, None]
    states = jnp.asarray((low + high) / 2 + (high - low) / 2 * points)
    wanted = features(points, degree)
    for column in range(len(wanted)):  # a large step, away from the public states
        moved = (difference(theta + 10 * w[:, column], states) - difference(theta, states))[0] / 10
        assert np.corrcoef(moved, wanted[column])[0, 1] > 0.9
        assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(wanted[column]), rel=0.25)


def test_dimensions_and_several_outputs(rng):
    three = ActorCritic(
        observation_dim=3, actions=Categorical(3), bounds=BOUNDS, biases=True, hidden=(24,)
    )
    theta = three.init(jax.random.key(0))
    subspace = FeatureSubspace(policy=three, bounds=BOUNDS)
    w = jax.jit(subspace.basis)(theta)
    assert subspace.dim == 6 and w.shape == (three.dim, 6)
    assert FeatureSubspace(policy=three, bounds=BOUNDS, degree=2).dim == 2 * 9
    states = jnp.asarray(public_states(BOUNDS))
    moved = (
        difference(theta + 1e-2 * w[:, 0], states, three) - difference(theta, states, three)
    ) / 1e-2
    assert np.linalg.norm(moved[0]) > 5 * np.linalg.norm(
        moved[1]
    )  # one contrast of the logits at a time
    contrasts = three.actions.contrasts
    np.testing.assert_allclose(contrasts @ contrasts.T, 2 * np.eye(2), atol=1e-6)
    np.testing.assert_allclose(contrasts.sum(axis=1), 0, atol=1e-6)
    assert np.array_equal(Categorical(2).contrasts, [[-1, 1]]) and Gaussian(
        (0.0,), (1.0,)
    ).contrasts.shape == (1, 1)


def test_the_random_subspace_is_orthonormal_and_always_the_same():
    subspace = RandomSubspace(policy=NET, size=5)
    w = np.asarray(subspace.basis(jnp.zeros(NET.dim)))
    np.testing.assert_allclose(w.T @ w, np.eye(5), atol=1e-5)
    assert np.array_equal(w, subspace.basis(jnp.ones(NET.dim)))


def test_project_and_lift_without_a_subspace_change_nothing(rng):
    g = rng.normal(size=6)
    assert project(None, g) is g and to_theta_space(None, g) is g
    w = rng.normal(size=(6, 2))
    np.testing.assert_allclose(to_theta_space(w, project(w, g)), w @ (w.T @ g))


def test_elimination_solves_a_badly_conditioned_system(x64, rng):
    a = rng.normal(size=(30, 30))
    matrix, right = a @ a.T + 1e-3 * np.eye(30), rng.normal(size=(30, 4))
    np.testing.assert_allclose(
        solve(jnp.asarray(matrix), jnp.asarray(right)), np.linalg.solve(matrix, right), rtol=1e-7
    )


def test_public_states_fill_the_box_evenly_and_symmetrically():
    points = public_points(4)
    assert points.shape == (4, 64) and np.abs(points).max() <= 1
    np.testing.assert_allclose(points.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose((points**2).mean(axis=1), 1 / 3, atol=0.05)
    states = public_states(BOUNDS)
    assert all(
        low <= row.min() and row.max() <= high
        for row, (low, high) in zip(states, BOUNDS, strict=True)
    )


def test_the_cap_bounds_the_outputs_and_keeps_the_greedy_actions(rng):
    theta = 5 * NET.init(jax.random.key(2))
    cap = OutputCap(policy=NET, bounds=BOUNDS, most=1.5)
    capped, states = cap.apply(theta), jnp.asarray(public_states(BOUNDS))
    before, after = difference(theta, states), difference(capped, states)
    assert np.sqrt((before**2).mean()) > 1.5
    assert np.sqrt((after**2).mean()) == pytest.approx(1.5, rel=1e-4)
    assert np.array_equal(np.sign(before), np.sign(after))
    small = OutputCap(policy=NET, bounds=BOUNDS, most=100.0).apply(theta)
    assert np.array_equal(small, theta)


@pytest.mark.parametrize(("world", "epsilon", "expected"), [
    ("cartpole", 1.0, ("linear", 4)), ("cartpole", 10.0, ("linear", 4)), ("pendulum", 1.0, ("quadratic", 9)),
    ("pendulum", 0.5, ("linear", 3)), ("mountain-car", 1.0, ("quadratic", 10)), ("acrobot", 1.0, ("linear", 12)),
])  # fmt: skip
def test_the_rule_for_the_subspace_reads_dimensions_and_epsilon_only(world, epsilon, expected):
    problem = build(configure(world=world, epsilon=epsilon))
    assert (problem.config.subspace, problem.randomiser.mechanism.dim) == expected


def test_rules_of_the_default():
    one, small, whole = (
        build(configure(**s)).config for s in ({}, {"epsilon": 0.25}, {"subspace": "full"})
    )
    assert (one.mechanism, one.local_episodes, one.estimator, one.buffer_size) == (
        "index",
        10,
        "evolution",
        10,
    )
    assert one.learning_rate == pytest.approx(0.25 * np.tanh(0.5)) and small.local_episodes == 20
    often = build(
        configure(epsilon=1.0, submissions_per_agent=10)
    ).config  # rules go by the ε of one report
    assert often.local_episodes == 20 and often.learning_rate == pytest.approx(0.25 * np.tanh(0.05))
    assert (
        whole.estimator == build(configure(local_episodes=1)).config.estimator == "policy-gradient"
    )


def test_a_constant_is_one_more_feature(rng):
    """With biases it is exact: every output moves by the same amount, wherever it is looked at."""
    subspace = FeatureSubspace(policy=NET, bounds=BOUNDS, constant=True)
    theta = NET.init(jax.random.key(2))
    w = jax.jit(subspace.basis)(theta)
    assert subspace.dim == 4 and w.shape == (NET.dim, 4)
    states = jnp.asarray(public_states(BOUNDS))
    moved = difference(theta + w[:, 0], states) - difference(theta, states)
    np.testing.assert_allclose(moved, 1.0, atol=0.2)


@pytest.mark.parametrize(("degree", "constant"), [(1, False), (1, True), (2, False)])
def test_it_says_how_far_a_step_changes_the_outputs(degree, constant, rng):
    subspace = FeatureSubspace(policy=NET, bounds=BOUNDS, degree=degree, constant=constant)
    points = rng.uniform(-1, 1, size=(3, 20_000))
    made = features(points, degree)
    wanted = (made**2).mean(axis=1).sum() + constant
    assert subspace.output_change == pytest.approx(wanted, rel=0.02)
