"""Playing on a device, in NumPy: the same numbers as the definitions in `estimators/`, in a real Gymnasium environment."""

import itertools
import tracemalloc
from dataclasses import replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.config import configure
from pgc.config.problem import build
from pgc.device.device import Device, Refusal
from pgc.errors import PgcError
from pgc.local_training.estimators.loss import Episode
from pgc.local_training.numpy_episodes import Order
from pgc.local_training.numpy_estimator import coordinates, tried
from pgc.local_training.numpy_player import Home, NumpyPlayer, most_work
from pgc.local_training.recipe import Recipe
from pgc.wire import Malformed, Offer, Query, Report
from tests.conftest import more

SETTINGS = {
    "default": {},
    "paper": {"preset": "paper"},
    "policy gradient": {"estimator": "policy-gradient", "local_episodes": 3, "subspace": "full"},
    "critic, scaled, mean, biases, tanh": {
        "estimator": "policy-gradient", "local_episodes": 3, "baseline": "critic", "standardize": "scale", "reduction": "mean", "activation": "tanh",
        "biases": True, "bootstrap": "always", "discount": 0.9, "value_weight": 0.3, "entropy_weight": 0.05,
    },
    "end reward": {
        "estimator": "policy-gradient", "reward": "end", "baseline": "none", "standardize": "center", "hidden": (8, 5),
        "local_episodes": 2,
    },
    "failure": {"estimator": "policy-gradient", "reward": "failure", "baseline": "critic", "bootstrap": "timeout", "hidden": ()},
    "pendulum": {"world": "pendulum"},
    "pendulum, policy gradient": {"world": "pendulum", "estimator": "policy-gradient", "subspace": "full"},
}  # fmt: skip


def make(name, **settings):
    problem = build(configure(**{**SETTINGS[name], **settings}))
    world = problem.config.world
    environment = gymnasium.make(
        "CartPole-v1" if world == "cartpole" else "Pendulum-v1",
        max_episode_steps=problem.training.world.max_steps,
    )
    return problem, NumpyPlayer(environment, Recipe.of(problem.training))


def padded(episode, max_steps) -> Episode:
    n = max_steps - len(episode.rewards)
    actions = np.pad(episode.actions, [(0, n)] + [(0, 0)] * (episode.actions.ndim - 1)).T
    return Episode(
        jnp.asarray(np.pad(episode.observations, ((0, n), (0, 0))).T, jnp.float32),
        jnp.asarray(actions, jnp.int32 if episode.actions.ndim == 1 else jnp.float32),
        jnp.asarray(np.pad(episode.rewards, (0, n)), jnp.float32),
        jnp.asarray(len(episode.rewards)),
        jnp.asarray(episode.terminated),
    )


MORE = ("policy gradient", "end reward", "failure", "pendulum, policy gradient")


@pytest.mark.parametrize("name", [*(name for name in SETTINGS if name not in MORE), *more(*MORE)])
def test_the_numbers_are_those_of_the_definitions(name, rng):
    problem, player = make(name)
    training, recipe = problem.training, player.recipe
    theta = rng.normal(size=recipe.dim).astype(np.float32) * 0.5
    assert recipe.dim == training.policy.dim
    basis = jax.jit(problem.start)(jnp.asarray(theta)).basis
    xi = tried(rng, training.dim, training.episodes)
    assert xi.shape == (training.dim, training.episodes)
    order = Order(theta.astype(float), Home(player.environment), rng, 0.3, False)
    episodes = player.episodes(iter([order] * training.episodes))
    mine = coordinates(
        recipe, theta.astype(float), None if basis is None else np.asarray(basis), episodes, xi
    )
    theirs = jax.jit(training.estimator.coordinates)(
        jnp.asarray(theta),
        basis,
        [padded(e, recipe.max_steps) for e in episodes],
        jnp.asarray(xi, jnp.float32),
    )
    size = np.abs(theirs).max()
    np.testing.assert_allclose(mine, theirs, rtol=5e-3, atol=5e-3 * size)


def make_offer(problem, *, offer_id=1, theta=None, epsilon=1.0) -> Offer:
    training = problem.training
    theta = np.zeros(training.policy.dim, np.float32) if theta is None else theta
    state = jax.jit(problem.start)(jnp.asarray(theta))
    return Offer(
        offer_id=offer_id,
        policy_version=0,
        query=Query.of(problem.randomiser.mechanism, score_epsilon=0.1),
        episodes=training.episodes,
        theta=theta,
        basis=None if state.basis is None else np.asarray(state.basis, np.float32),
    )


@pytest.mark.parametrize("name", ["default", "paper", "pendulum"])
def test_a_device_answers_with_a_world(name, tmp_path, rng):
    problem, player = make(name)
    theta = rng.normal(size=player.recipe.dim).astype(np.float32) * 0.1
    device = Device.create(tmp_path / "l.db", 10.0, player=player, slot_seconds=0)
    offer = make_offer(problem, theta=theta)
    report = device.answer(offer.encode())
    assert isinstance(report, bytes) and Report.decode(report, offer).score_bit in (True, False)
    assert device.answer(offer) == report and device.balance.reports == 1


def test_devices_teach_a_policy(tmp_path, bits_of_a_seed):
    """The whole loop through bytes: 30 devices at ε = 8, plain steps; a greedy policy gets better at CartPole."""
    problem, player = make("default", epsilon=8.0, mechanism="index", subspace="linear")
    theta = np.random.default_rng(3).normal(size=player.recipe.dim).astype(np.float32) * 0.3
    player.environment.reset(seed=0)
    device = Device.create(
        tmp_path / "l.db", 400.0, player=player, slot_seconds=0
    )  # one ledger stands for all of them
    accept, prepare = jax.jit(problem.aggregator.accept), jax.jit(problem.deliverer.prepare)
    state = problem.start(jnp.asarray(theta))

    def score(theta):
        order = Order(np.asarray(theta, float), Home(player.environment), None, 0.0, True)
        return np.mean([e.rewards.sum() for e in player.episodes(iter([order] * 10))])

    before = score(theta)
    for n in range(30):
        offer = make_offer(problem, offer_id=n, theta=np.asarray(state.theta, np.float32))
        report = Report.decode(device.answer(offer), offer)
        vector = jnp.asarray(report.vector(offer), jnp.float32)
        state = prepare(state, accept(state, vector, state.version))
    assert score(state.theta) > max(100, 2 * before), (before, score(state.theta))


class Counting:
    def __init__(self, environment):
        self.environment, self.steps = environment, 0

    def reset(self):
        return self.environment.reset()

    def step(self, action):
        self.steps += 1
        return self.environment.step(action)


def test_fixed_steps_take_the_same_steps_whatever_happens(rng):
    problem, player = make("default")
    seen = set()
    for size in (0.0, 0.1, 3.0):
        counting = Counting(player.environment)
        fixed = replace(player, environment=counting, fixed_steps=True)
        theta = (size * rng.normal(size=player.recipe.dim)).astype(np.float32)
        fixed.play(make_offer(problem, theta=theta))
        seen.add(counting.steps)
    assert seen == {(problem.training.episodes + 1) * player.recipe.max_steps}


class Broken:
    """Fails at some step, in some way."""

    def __init__(self, when, how):
        self.when, self.how, self.count = when, how, itertools.count()

    def reset(self):
        return np.zeros(4), {}

    def step(self, action):
        np.seterr(all="raise")  # what a world does to the whole process must not matter
        if next(self.count) == self.when:
            raise self.how
        return np.full(4, np.nan), np.nan, False, False, {}


class Panic(BaseException):
    """As extension modules raise it."""


@pytest.mark.parametrize("when", [0, 7, 10**9])
@pytest.mark.parametrize(
    "how", [OSError("stuck"), Panic("rust"), PgcError("private: 42"), Malformed("private: 42")]
)
def test_a_world_that_fails_is_answered_for_all_the_same(when, how, tmp_path):
    problem, player = make("default")
    device = Device.create(
        tmp_path / "l.db",
        10.0,
        slot_seconds=0,
        player=replace(player, environment=Broken(when, how)),
    )
    offer = make_offer(problem)
    with np.errstate():  # restores what the world sets
        assert isinstance(device.answer(offer), bytes)
    assert device.balance.reports == 1


class Sloppy:
    """Plays, and returns what it should not."""

    def __init__(self, made):
        self.made = made

    def objection(self, offer):
        return None

    def play(self, offer, stop):
        return self.made


@pytest.mark.parametrize(
    "made",
    [
        (np.ones(3), True),
        (["a"] * 4, True),
        None,
        (np.ones(4, complex), True),
        7,
        (np.ones(4), np.ones(2)),
    ],
)
def test_a_player_that_returns_nonsense_is_answered_for_all_the_same(made, tmp_path):
    problem, _ = make("default")
    device = Device.create(tmp_path / "l.db", 10.0, player=Sloppy(made), slot_seconds=0)
    assert isinstance(device.answer(make_offer(problem)), bytes)


def test_an_offer_that_would_take_all_memory_is_refused(tmp_path):
    problem, player = make("default", subspace="full", estimator="policy-gradient")
    device = Device.create(
        tmp_path / "l.db", 10.0, player=player, most_episodes=65_535, slot_seconds=0
    )
    answer = device.answer(replace(make_offer(problem), episodes=65_535))
    assert isinstance(answer, Refusal) and device.balance.spent == 0


class Lasts:
    """A world whose episodes have this many steps."""

    def __init__(self, steps):
        self.steps = steps

    def reset(self):
        self.left = self.steps
        return np.zeros(4), {}

    def step(self, action):
        self.left -= 1
        return np.full(4, 0.1), 1.0, self.left == 0, False, {}


@pytest.mark.parametrize("estimator", ["evolution", "policy-gradient"])
@pytest.mark.parametrize("hidden", [(16,), (512,)])
def test_memory_is_bounded_before_play_in_every_world(estimator, hidden):
    """The hole: a home whose pole stood needed 1,064 MiB, one whose pole fell 56; with 512 the first was killed."""
    problem, player = make("default", estimator=estimator, hidden=hidden, local_episodes=12)
    offer, taken = make_offer(problem), []
    for steps in (200, 10):
        home = replace(player, environment=Lasts(steps))
        tracemalloc.start()
        home.play(offer)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    bound, operations = most_work(player.recipe, offer)
    assert max(taken) <= bound < 40 * max(taken) and operations > 0
    small = replace(player, most_memory=bound - 1)
    assert "MiB; this device gives" in small.objection(offer)
    assert "operations; this device gives" in replace(player, most_operations=1.0).objection(offer)
    assert player.objection(offer) is None


def test_the_offer_that_silenced_some_homes_is_answered_or_refused_in_all(tmp_path):
    """16,384 hidden units and 40 episodes: 1,064 MiB where the pole stood, once; now within the limit wherever it falls."""
    problem, player = make("default", estimator="policy-gradient", hidden=(16_384,))
    query = Query.of(problem.randomiser.mechanism, score_epsilon=0.1)
    theta = np.zeros(problem.training.policy.dim, np.float32)
    basis = np.eye(len(theta), query.dim, dtype=np.float32)
    offer = Offer(offer_id=1, policy_version=0, query=query, episodes=40, theta=theta, basis=basis)
    bound, _ = most_work(player.recipe, offer)
    assert bound <= player.most_memory
    for most_memory, spent in ((bound, 1_100_000_000), (bound - 1, 0)):
        for steps in (200, 10):
            home = replace(player, environment=Lasts(steps), most_memory=most_memory)
            ledger = tmp_path / f"{most_memory}-{steps}.db"
            device = Device.create(ledger, 10.0, player=home, slot_seconds=0)
            answer = device.answer(offer)
            assert isinstance(answer, Refusal) == (not spent)
            assert device.balance.spent == spent


def test_ctrl_c_is_not_an_answer(tmp_path):
    problem, player = make("default")
    device = Device.create(
        tmp_path / "l.db",
        10.0,
        slot_seconds=0,
        player=replace(player, environment=Broken(3, KeyboardInterrupt())),
    )
    with pytest.raises(KeyboardInterrupt):
        device.answer(make_offer(problem))
    assert device.balance.reports == 1  # it is paid for, and a retry is answered without a play
    assert isinstance(device.answer(make_offer(problem)), bytes)


def test_an_offer_for_another_policy_is_refused_before_it_costs(tmp_path):
    _, player = make("default")
    other, _ = make("default", hidden=(8,))
    device = Device.create(tmp_path / "l.db", 10.0, player=player, slot_seconds=0)
    answer = device.answer(make_offer(other))
    assert isinstance(answer, Refusal) and "not one that this device can play" in answer.reason
    assert device.balance.spent == 0
