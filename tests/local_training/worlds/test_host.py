"""Gymnasium environments as worlds: spaces, ψ, the public box, time limits, and what goes wrong."""

import math

import gymnasium
import numpy as np
import pytest

from pgc.config import configure
from pgc.config.problem import build
from pgc.engines.jobs import host_policy
from pgc.errors import PgcError
from pgc.local_training.on_host import HostAgents
from pgc.local_training.worlds.bounds import box_around
from pgc.local_training.worlds.host import EnvironmentFailed
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.public_play import Scales
from pgc.local_training.worlds.registry import make_world
from pgc.spaces import Categorical, Gaussian

HERE = "tests.local_training.worlds.environments:"
CARTPOLE = "gymnasium:CartPole-v1"


def agents(world, **settings):
    problem = build(configure(world=world, **settings))
    return HostAgents(problem.training, 0, host_policy(problem))


def played(world, n=1, **settings):
    them = agents(world, **settings)
    theta = np.asarray(them.training.policy.init(__import__("jax").random.key(0), "flat"), float)
    return them.play([them.greedy_order(theta, them.world.default_psi, seed) for seed in range(n)])


def test_what_is_public_of_an_environment_is_what_gymnasium_says():
    world = make_world(CARTPOLE)
    assert (world.max_steps, world.score_threshold, world.actions, world.observation_dim) == (
        500,
        475.0,
        Categorical(2),
        4,
    )
    assert {"gravity", "masspole", "length"} <= set(world.default_psi._fields)
    assert world.default_psi.gravity == 9.8
    own = make_world(HERE + "Walk")
    assert own.max_steps == 1000 and own.score_threshold == math.inf and own.observation_dim == 2
    assert own.default_psi._asdict() == {
        "push": 0.1,
        "pause": 0.0,
        "mass": 2.0,
        "drag": 0.05,
        "blown": 0.0,
        "WIND": 0.0,
    }
    assert make_world(HERE + "Walk", max_steps=7, threshold=3.0).max_steps == 7


def test_constants_that_depend_on_psi_are_rebuilt():
    """The trap: an attribute that is changed afterwards leaves what was derived from it as it was."""
    stale = gymnasium.make("CartPole-v1").unwrapped
    stale.masspole, stale.length = 0.5, 1.0
    assert (stale.total_mass, stale.polemass_length) == (1.1, 0.05)
    world = make_world(CARTPOLE)
    env = world.make(world.default_psi._replace(masspole=0.5, length=1.0))
    assert (env.masspole, env.length, env.total_mass, env.polemass_length) == (0.5, 1.0, 1.5, 0.5)
    usual = world.make(world.default_psi)
    assert type(env) is type(usual) and (usual.total_mass, usual.polemass_length) == (
        1.1,
        0.05,
    )  # nobody else is touched


def test_the_physics_of_psi_is_that_of_the_compiled_world():
    """One step from one state, with a heavy pole, in Gymnasium's and in ours."""
    import jax.numpy as jnp

    from pgc.local_training.worlds.cartpole import CartPole, CartPolePsi, CartPoleState

    world = make_world(CARTPOLE)
    env = world.make(
        world.default_psi._replace(masspole=0.5, length=0.7, gravity=12.0, force_mag=7.0)
    )
    env.reset(seed=0)
    start = (0.1, -0.2, 0.05, 0.3)
    env.state = np.array(start)
    seen, *_ = env.step(1)
    psi = CartPolePsi(gravity=12.0, pole_mass=0.5, length=0.7, force=7.0)
    ours = CartPole().step(None, CartPoleState(*map(jnp.float32, start)), jnp.asarray(1), psi)
    np.testing.assert_allclose(seen, np.stack(ours.state), rtol=1e-5)


def test_psi_by_argument_by_attribute_and_by_class_attribute():
    world = make_world(HERE + "Walk")
    env = world.make(world.default_psi._replace(push=0.3, mass=4, WIND=0.01))
    assert (env.push, env.mass, env.drag, env.WIND, env.blown) == (0.3, 4, 0.025, 0.01, 0.1)
    assert isinstance(env.mass, int)  # as it was
    assert Population.parse(world, ("mass=1:3", "push=0.1,0.2")).pick([0.25, 0.9])._asdict() == {
        **world.default_psi._asdict(), "mass": 1.5, "push": 0.2,
    }  # fmt: skip
    stubborn = make_world(HERE + "Stubborn")
    with pytest.raises(PgcError, match="does not keep mass = 5"):
        stubborn.make(stubborn.default_psi._replace(mass=5))
    forgets = make_world(HERE + "Forgets")
    with pytest.raises(PgcError, match="does not keep mass = 5"):
        forgets.make(forgets.default_psi._replace(mass=5))
    assert (
        "best" not in (odd := make_world(HERE + "Odd")).default_psi._fields
        and "made" not in odd.default_psi._fields
    )
    with pytest.raises(PgcError, match="FIELD one of WIND, push"):
        Population.parse(world, ("weight=1,2",))


def test_spaces_become_numbers_and_back():
    steered = make_world(HERE + "Steered")
    assert steered.actions == Gaussian((-2.0, 0.0), (2.0, 1.0)) and steered.observation_dim == 3
    [episode] = played(HERE + "Steered", max_steps=20)
    assert episode.observations.shape == (21, 3) and episode.actions.shape == (20, 2)
    corridor = make_world(HERE + "Corridor")
    assert corridor.observation_dim == 4 and corridor.observation_bounds == ((0.0, 1.0),) * 4
    np.testing.assert_array_equal(corridor.observation.flat(5), [0, 0, 1, 0])
    assert make_world(HERE + "Walk").acting.plain(0) == 1  # its first action is 1
    catch = make_world(HERE + "Catch")
    assert catch.image == (12, 12, 1) and catch.observation_bounds == ()


def test_the_public_box_is_given_or_probed_and_knows_nothing_of_psi():
    box = make_world(CARTPOLE).observation_bounds
    env = gymnasium.make("CartPole-v1")
    assert all(
        low >= a and high <= b
        for (low, high), a, b in zip(
            box, env.observation_space.low, env.observation_space.high, strict=True
        )
    )
    assert all(
        math.isfinite(end) for pair in box for end in pair
    )  # though two of Gymnasium's are not
    config = build(
        configure(world=CARTPOLE, bounds=("1=-3:3",), population=("gravity=1:100",))
    ).config
    assert config.bounds[1] == "1=-3.0:3.0" and len(config.bounds) == 4
    again = make_world(
        CARTPOLE, bounds=config.bounds
    )  # what the run's config.yaml says needs no probe
    assert again.observation_bounds[0] == box[0] and again.observation_bounds[1] == (-3.0, 3.0)
    for wrong in ("4=0:1", "0=1:1", "0:1", "x=0:1", "0=0:inf"):
        with pytest.raises(PgcError, match="write INDEX=low:high, low < high, INDEX from 0 to 3"):
            make_world(CARTPOLE, bounds=(wrong,))
    (low, high), other = make_world(HERE + "Far").observation_bounds
    assert np.float32(low) < 1.7e9 < np.float32(high) and other == (2.0, 4.0)
    with pytest.raises(PgcError, match="is a picture"):
        make_world(HERE + "Catch", bounds=("0=0:1",))
    with pytest.raises(PgcError, match="cartpole has its own"):
        make_world("cartpole", max_steps=3)


def test_the_box_of_public_play_has_zero_in_its_middle_unless_that_is_far_away():
    observation = make_world(CARTPOLE).observation
    scales = Scales(np.array([0.8, 20.0, 0.0, -0.4]), np.array([0.5, 3.0, 1.0, 0.3]))
    low, high = box_around(scales, observation)
    np.testing.assert_allclose(low, [-1.3, 17.0, -1.0, -0.7])
    np.testing.assert_allclose(high, [1.3, 23.0, 1.0, 0.7])


def test_a_constant_is_for_worlds_in_which_zero_is_no_usual_value():
    far = make_world(HERE + "Far")
    assert far.offset and not make_world(CARTPOLE).offset
    for world, constant in ((HERE + "Far", True), (CARTPOLE, False)):
        assert build(configure(world=world, subspace="linear")).config.constant is constant
    bounds = tuple(f"{i}=-1:1" for i in range(far.observation_dim))
    assert not make_world(HERE + "Far", bounds=bounds).offset  # nothing had to be found


def test_a_time_limit_is_no_terminal_state():
    cut, fallen, own = (
        played(HERE + kind, 1, max_steps=30)[0] for kind in ("Endless", "Walk", "Cut")
    )
    assert len(cut.rewards) == 30 and not cut.terminated
    assert len(fallen.rewards) < 30 and fallen.terminated
    assert len(own.rewards) == 5 and not own.terminated


def test_only_a_time_out_is_bootstrapped():
    """The same rewards, once cut and once ended, with a critic: targets differ by γ^(T−t)·V(s_T)."""
    from pgc.local_training.numpy_estimator import gradient

    them = agents(
        HERE + "Endless",
        baseline="critic",
        estimator="policy-gradient",
        standardize="no",
        max_steps=6,
    )
    theta = np.asarray(them.training.policy.init(__import__("jax").random.key(3), "glorot"), float)
    [episode] = them.play([them.greedy_order(theta, them.world.default_psi, 0)])
    cut, ended, lost = (
        gradient(them.recipe, theta, [e], them.network)
        for e in (
            episode,
            episode._replace(terminated=True),
            episode._replace(terminated=True, rewards=_last(them, theta, episode)),
        )
    )
    assert not np.allclose(cut, ended)
    np.testing.assert_allclose(cut, lost, rtol=1e-9)  # a bootstrap is a last reward of γ·V(s_T)


def _last(them, theta, episode):
    value = them.network.forward(theta, episode.observations).values[-1]
    return episode.rewards + np.eye(len(episode.rewards))[-1] * them.recipe.discount * value


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("OfText", "parts that are no vectors of one length"),
        ("ManyActions", "actions of kind Tuple; pgc needs Discrete or Box"),
        ("Unbounded", "actions without bounds"),
        ("none", "no Gymnasium environment"),
        ("missing", "cannot load world"),
        ("NoReward", "returned a reward that is not finite"),
        ("WrongObservation", "an observation has 3 numbers, and its space 2"),
    ],
)
def test_what_cannot_be_a_world_is_refused(kind, says):
    with pytest.raises(PgcError, match=says) as refused:
        make_world(HERE + kind)
    assert "\n" not in str(refused.value)


def test_parts_become_one_vector_as_gymnasium_makes_it():
    world = make_world(HERE + "OfParts")
    ours, theirs = world.make(world.default_psi), world.make(world.default_psi)
    theirs = gymnasium.wrappers.FlattenObservation(theirs)
    for step in range(4):
        seen, wanted = (
            (env.reset(seed=1) if step == 0 else env.step(1 + step % 2))[0]
            for env in (ours, theirs)
        )
        np.testing.assert_array_equal(world.observation.flat(seen), wanted.astype(np.float32))
    assert world.observation_dim == len(wanted) == len(world.observation_bounds)
    [episode] = played(HERE + "OfParts", 1, max_steps=10)
    assert episode.observations.shape[1] == len(wanted)


def test_a_module_is_imported_for_the_environments_that_it_registers(tmp_path, monkeypatch):
    """The hole: gymnasium:MODULE:ID, as documented, worked for no environment outside Gymnasium."""
    (tmp_path / "registering.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Elsewhere-v3', 'gymnasium.envs.classic_control:CartPoleEnv', "
        "max_episode_steps=77)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        world = make_world("gymnasium:registering:Elsewhere-v3")
        assert world.max_steps == 77 and "gravity" in world.default_psi._fields
    finally:
        gymnasium.registry.pop("Elsewhere-v3", None)


@pytest.mark.extra
def test_an_environment_of_somebody_else():
    name = "gymnasium:gym_anytrading:stocks-v0"
    world = make_world(name)
    assert world.observation_dim == 60 and world.actions == Categorical(2)
    [episode] = played(name, 1, max_steps=20)
    assert len(episode.rewards) == 20


def test_an_unknown_id_is_refused():
    for name in ("gymnasium:NoSuch-v1", "gymnasium:nosuch:NoSuch-v1", "nosuch:Env"):
        with pytest.raises(PgcError) as refused:
            make_world(name)
        assert "\n" not in str(refused.value)
    with pytest.raises(PgcError, match="unknown world 'walk'; choose one of: cartpole"):
        make_world("walk")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Raises", "raised RuntimeError: the motor is hot in"),
        ("NotANumber", "an observation that is not finite"),
    ],
)
def test_an_environment_that_fails_says_so_in_one_line(kind, says):
    box = ("0=-1:1", "1=-1:1")  # so that no probe finds it first
    with pytest.raises(EnvironmentFailed, match=says) as failed:
        played(HERE + kind, 200, max_steps=50, bounds=box)
    assert "\n" not in str(failed.value)
