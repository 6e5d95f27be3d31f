"""The devices of `pgc join`: a real one is bounded, and what its private world does happens after the charge."""

import numpy as np
import pytest

from pgc.config import configure
from pgc.config.problem import build
from pgc.device.device import Device
from pgc.local_training.numpy_player import NumpyPlayer
from pgc.local_training.players import JaxEnvironment, JaxPlayer, make_player, recipe_for
from pgc.local_training.worlds.registry import world_of
from pgc.service.fleet import Fleet
from tests.local_training.test_numpy_player import make_offer


class Service:
    """Stands in for a service that hands out one offer, and remembers what came when."""

    def __init__(self, offer):
        self.offers, self.happened = [offer.encode()], []
        self.clock = lambda: 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def offer(self):
        self.happened.append("asked")
        return self.offers.pop() if self.offers else None

    def submit(self, report):
        self.happened.append("reported")
        return "accepted"


def fleet_of(problem, service, path, **settings):
    world = problem.training.world
    return Fleet(
        connect=lambda token: service, tokens=["t"], ledgers=[path], limit=None, device_id=None,
        world=world, population=problem.training.population,
        recipe=recipe_for(world, problem.training.recipe.card), seed=0, accepts=("index",),
        say=lambda *_: None, **settings,
    )  # fmt: skip


@pytest.mark.parametrize("why", ["slow", "impossible"])
def test_the_private_world_is_made_after_the_charge(tmp_path, monkeypatch, why):
    """The hole: it was made before the first request, and a ψ that its constructor refuses was a silence for free."""
    problem = build(configure(world="gymnasium:CartPole-v1", local_episodes=2))
    service = Service(make_offer(problem))
    kind = type(problem.training.world)
    make = kind.make

    def private(self, psi, **given):
        service.happened.append("made")
        if why == "impossible":
            raise ValueError("this gravity cannot be")
        return make(self, psi, **given)

    monkeypatch.setattr(kind, "make", private)
    Device.create(tmp_path / "l.db", 10.0)
    joined = fleet_of(problem, service, tmp_path / "l.db", slot=1.0, simulated=False).run(1)
    assert service.happened[:2] == ["asked", "made"] and service.happened[-2:] == [
        "reported",
        "asked",
    ]
    assert joined.accepted == 1 and not joined.failed


def test_a_real_device_is_bounded_and_a_simulated_one_is_fast(tmp_path):
    problem = build(configure())
    service = Service(make_offer(problem))
    for simulated, kind in ((False, NumpyPlayer), (True, JaxPlayer)):
        fleet = fleet_of(problem, service, tmp_path / "l.db", slot=0.0, simulated=simulated)
        assert type(fleet._player(0)) is kind


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "acrobot", "mountain-car", "thermostat"])
def test_a_built_in_world_step_by_step(name):
    """Observations, rewards and ends as Gymnasium's interface has them; a reset is another draw."""
    world = world_of(configure(world=name))
    problem = build(configure(world=name))
    player = make_player(world, world.default_psi, problem.training.recipe)
    assert isinstance(player.environment, JaxEnvironment)
    first, _ = player.environment.reset()
    again, _ = player.environment.reset()
    assert first.shape == (world.observation_dim,) and not np.array_equal(first, again)
    discrete = hasattr(world.actions, "count")
    for _ in range(5):
        seen, reward, terminated, truncated, _ = player.environment.step(
            0 if discrete else np.zeros(world.actions.outputs, np.float32)
        )
        assert np.isfinite(seen).all() and np.isfinite(reward) and truncated is False
        assert isinstance(terminated, bool)
    z, success = player.play(make_offer(problem), lambda: False)
    assert np.isfinite(z).all() and isinstance(success, bool)
