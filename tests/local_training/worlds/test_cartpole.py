"""CartPole agrees with the real Gymnasium CartPole rebuilt with the same ψ."""

import gymnasium
import jax
import numpy as np
import pytest

from pgc.local_training.worlds.cartpole import CartPole, CartPolePsi, CartPoleState
from pgc.spaces import Categorical

FIELDS = dict(
    gravity=(5, 15),
    cart_mass=(0.5, 2),
    pole_mass=(0.05, 0.5),
    length=(0.2, 1.5),
    force=(5, 20),
    time_step=(0.01, 0.05),
)


def gymnasium_with(psi: CartPolePsi):
    env = gymnasium.make("CartPole-v1").unwrapped
    env.gravity, env.masscart, env.masspole = psi.gravity, psi.cart_mass, psi.pole_mass
    env.length, env.force_mag, env.tau = psi.length, psi.force, psi.time_step
    env.total_mass = psi.cart_mass + psi.pole_mass
    env.polemass_length = psi.pole_mass * psi.length
    env.reset(seed=0)
    return env


def random_case(rng):
    psi = CartPolePsi(**{f: rng.uniform(*bounds) for f, bounds in FIELDS.items()})
    state = rng.uniform([-2.5, -3, -0.22, -3], [2.5, 3, 0.22, 3])
    return psi, state, int(rng.integers(2))


def gymnasium_step(psi, state, action):
    env = gymnasium_with(psi)
    env.state = np.array(state)
    _, reward, terminated, _, _ = env.step(action)
    return np.array(env.state), reward, terminated


def test_agrees_with_gymnasium_on_random_states_actions_and_constants(x64, rng):
    world = CartPole()
    step = jax.jit(world.step)
    ended = 0
    for _ in range(1000):
        psi, state, action = random_case(rng)
        theirs, reward, terminated = gymnasium_step(psi, state, action)
        ours = step(jax.random.key(0), CartPoleState(*state), action, psi)
        np.testing.assert_allclose(np.array(ours.state), theirs, rtol=0, atol=1e-6)
        assert bool(ours.terminated) == terminated
        assert float(ours.reward) == reward == 1.0
        ended += terminated
    assert 50 < ended < 950  # both kinds were seen


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_constant_would_be_noticed(field, x64, rng):
    psi, state, action = random_case(rng)
    wrong = psi._replace(**{field: getattr(psi, field) * 1.01})
    theirs, _, _ = gymnasium_step(psi, state, action)
    ours = CartPole().step(jax.random.key(0), CartPoleState(*state), action, wrong)
    assert np.abs(np.array(ours.state) - theirs).max() > 1e-6


def test_a_stale_derived_constant_would_be_noticed(x64, rng):
    """Gymnasium leaves total_mass and polemass_length stale when a mass is set by attribute; ours cannot."""
    psi, state, action = random_case(rng)
    env = gymnasium_with(psi)
    env.masspole *= 1.5  # as a careless user would
    env.state = np.array(state)
    env.step(action)
    ours = CartPole().step(
        jax.random.key(0),
        CartPoleState(*state),
        action,
        psi._replace(pole_mass=psi.pole_mass * 1.5),
    )
    assert np.abs(np.array(ours.state) - np.array(env.state)).max() > 1e-6


def test_starts_are_uniform_within_a_twentieth():
    states = jax.vmap(CartPole().reset, (0, None))(
        jax.random.split(jax.random.key(0), 4000), CartPolePsi()
    )
    for coordinate in states:
        assert -0.05 <= coordinate.min() < -0.0495 and 0.0495 < coordinate.max() < 0.05
        assert abs(float(coordinate.std()) - 0.1 / 12**0.5) < 0.0005


def test_the_papers_world():
    world = CartPole()
    assert (world.max_steps, world.score_threshold, world.actions) == (200, 195.0, Categorical(2))
    assert len(world.observation_bounds) == world.observation_dim
    assert world.default_psi == (9.8, 1.0, 0.1, 0.5, 10.0, 0.02)
