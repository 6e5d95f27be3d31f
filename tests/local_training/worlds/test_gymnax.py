"""Gymnax environments play compiled, through the same door."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgc
from pgc.errors import PgcError
from pgc.local_training.worlds.cartpole import CartPole, CartPoleState
from pgc.local_training.worlds.registry import make_world
from pgc.spaces import Categorical, Gaussian

pytestmark = pytest.mark.extra


def test_cartpole_is_ours():
    """The same physics, at another ψ; and a time limit is no terminal state."""
    world, ours = make_world("gymnax:CartPole-v1"), CartPole()
    assert (world.actions, world.observation_dim, world.max_steps) == (Categorical(2), 4, 500)
    assert (
        world.score_threshold == math.inf
        and make_world("gymnax:CartPole-v1", threshold=3.0).score_threshold == 3.0
    )
    psi = world.default_psi._replace(gravity=12.0)
    state = world.reset(jax.random.key(0), psi)
    mine = CartPoleState(*map(jnp.float32, world.observe(state)))
    for action in (0, 1, 1, 0, 1):
        state, reward, terminated = world.step(jax.random.key(0), state, jnp.asarray(action), psi)
        mine = ours.step(
            None, mine, jnp.asarray(action), ours.default_psi._replace(gravity=12.0)
        ).state
        np.testing.assert_allclose(world.observe(state), jnp.stack(mine), rtol=2e-4, atol=1e-5)
        assert reward == 1 and not terminated


def test_a_long_episode_is_cut_and_not_ended():
    world = make_world("gymnax:Pendulum-v1", max_steps=7)
    assert isinstance(world.actions, Gaussian) and world.max_steps == 7
    state = world.reset(jax.random.key(0), world.default_psi)
    step = jax.jit(world.step)
    for _ in range(300):
        state, _, terminated = step(jax.random.key(0), state, jnp.zeros(1), world.default_psi)
        assert not terminated


def test_it_is_learnt_under_privacy(tmp_path):
    run = pgc.train(world="gymnax:CartPole-v1", max_steps=200, threshold=195.0, submissions=400, trials=4, eval_episodes=20,
                    population=("gravity=9.7,9.8,9.9",), out=tmp_path / "run")  # fmt: skip
    assert run.summary["averaged_score_mean"] > 120


def test_refusals():
    with pytest.raises(PgcError, match="Gymnax has no environment 'Nothing-v0'"):
        make_world("gymnax:Nothing-v0")


def test_a_large_state_is_kept_as_its_arrays():
    """Each number as an array of its own could not be compiled; lanes play as one environment alone does."""
    world = make_world("gymnax:Breakout-MinAtar", bounds=tuple(f"{i}=0:1" for i in range(400)))
    keys, actions = jax.random.split(jax.random.key(3), 5), jnp.array([0, 1, 2, 1, 0])
    reset = jax.vmap(world.reset, (0, None), -1)
    move = jax.vmap(world.step, (0, -1, -1, None), -1)
    lanes, one = reset(keys, world.default_psi), world.reset(keys[2], world.default_psi)
    assert max(leaf.ndim for leaf in jax.tree.leaves(lanes)) == 3
    for _ in range(20):
        lanes = move(keys, lanes, actions, world.default_psi).state
        one = world.step(keys[2], one, actions[2], world.default_psi).state
    seen = jax.vmap(world.observe, -1, -1)(lanes)
    assert seen.shape == (400, 5) and (seen[:, 2] == world.observe(one)).all()
