"""Acrobot, MountainCar and Pendulum are Gymnasium's, with their physics in ψ."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.errors import PgcError
from pgc.local_training.worlds.acrobot import Acrobot
from pgc.local_training.worlds.mountain_car import MountainCar
from pgc.local_training.worlds.pendulum import Pendulum
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import make_world
from pgc.spaces import Gaussian

# Our field of ψ, Gymnasium's attribute, and another value.
PAIRS = {
    Acrobot: (
        "Acrobot-v1",
        [
            ("mass_1", "LINK_MASS_1", 1.3),
            ("length_1", "LINK_LENGTH_1", 0.8),
            ("inertia", "LINK_MOI", 1.2),
        ],
    ),
    MountainCar: (
        "MountainCar-v0",
        [("force", "force", 0.0015), ("gravity", "gravity", 0.002), ("goal", "goal_position", 0.3)],
    ),
    Pendulum: ("Pendulum-v1", [("gravity", "g", 8.0), ("mass", "m", 1.2), ("length", "l", 0.9)]),
}


def pairs():
    for kind, (name, changes) in PAIRS.items():
        yield pytest.param(kind, name, [], id=f"{kind.name}")
        yield pytest.param(kind, name, changes, id=f"{kind.name}-other-physics")


@pytest.mark.parametrize(("kind", "name", "changes"), list(pairs()))
def test_every_step_is_gymnasiums(kind, name, changes, x64, rng):
    world, theirs = kind(), gymnasium.make(name).unwrapped
    psi = world.default_psi
    for field, attribute, value in changes:
        psi = psi._replace(**{field: value})
        setattr(theirs, attribute, value)
        if field == "length_1":
            theirs.LINK_COM_POS_1 = (
                value / 2
            )  # there it is an attribute of its own, and would be stale
    step, ended = jax.jit(world.step), 0
    for episode in range(4):
        theirs.reset(seed=episode)
        state = jax.tree.map(jnp.asarray, world.reset(jax.random.key(episode), psi))
        theirs.state = np.asarray([float(x) for x in state])
        for t in range(60):
            continuous = isinstance(world.actions, Gaussian)
            action = rng.uniform(-3, 3, size=1) if continuous else int(rng.integers(3))
            if kind is MountainCar and episode:  # pump, so that the goal is reached
                action = 2 if float(state.x_dot) >= 0 else 0
                state = state._replace(x=state.x + 0.01) if t == 0 else state
                theirs.state = np.asarray([float(x) for x in state])
            seen, reward, terminated, _, _ = theirs.step(action)
            moved = step(jax.random.key(0), state, jnp.asarray(action), psi)
            np.testing.assert_allclose(world.observe(moved.state), seen, rtol=1e-5, atol=1e-5)
            assert float(moved.reward) == pytest.approx(float(reward), rel=1e-6)
            assert bool(moved.terminated) == terminated
            state, ended = moved.state, ended + terminated
            if terminated:
                break
    assert ended or kind is not MountainCar or not changes


@pytest.mark.parametrize("kind", list(PAIRS))
def test_the_public_facts_hold(kind, rng):
    world = kind()
    population = Population.parse(world, world.default_population)
    assert len(population.grid()) == 3
    keys = jax.random.split(jax.random.key(0), 200)
    states = jax.vmap(lambda key: world.reset(key, world.default_psi))(keys)
    low, high = np.asarray(world.observation_bounds).T
    action = world.actions.greedy(jnp.zeros(world.actions.outputs))
    for _ in range(30):
        seen = np.asarray(jax.vmap(world.observe)(states))
        assert (
            seen.shape == (200, world.observation_dim)
            and (seen >= low - 1e-5).all()
            and (seen <= high + 1e-5).all()
        )
        states = jax.vmap(lambda s, k: world.step(k, s, action, world.default_psi).state)(
            states, keys
        )
    lines = world.sketch(jax.tree.map(lambda leaf: leaf[0], states))
    assert all(len(xs) == len(ys) for xs, ys in lines)


def test_acrobot_ends_when_its_tip_is_up_and_then_costs_nothing():
    world = Acrobot()
    up = world.reset(jax.random.key(0), world.default_psi)._replace(
        angle_1=jnp.asarray(3.1), angle_2=jnp.asarray(0.0)
    )
    moved = world.step(jax.random.key(0), up, jnp.asarray(1), world.default_psi)
    assert bool(moved.terminated) and float(moved.reward) == 0


@pytest.mark.parametrize("kind", [kind for kind in PAIRS if kind.usual_bounds is not None])
def test_the_box_of_good_play_is_what_public_play_finds(kind):
    """Within a factor of two, and about the middle of the limits."""
    low, high = np.asarray(kind.usual_bounds).T
    found = np.asarray(make_world(f"gymnasium:{PAIRS[kind][0]}").observation_bounds).T
    widest = np.maximum(np.abs(found[0]), np.abs(found[1]))
    assert (low == -high).all() and (high > 0.5 * widest).all() and (high < 2 * widest).all()


def test_worlds_with_different_boxes_are_different():
    """Compiled programs are kept by world: one with another box must not be taken for it."""
    box = ("4=-1:1",)
    assert make_world("acrobot") == make_world("acrobot") != make_world("acrobot", bounds=box)
    assert hash(make_world("acrobot")) == hash(make_world("acrobot"))
    with pytest.raises(PgcError, match="INDEX from 0 to 5"):
        make_world("acrobot", bounds=("6=-1:1",))
