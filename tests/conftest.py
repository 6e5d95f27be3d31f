"""Fixtures shared by all tests, and the `--all` switch for what needs the optional extras."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest

from pgc.agent import LocalTraining
from pgc.aggregator import Aggregator
from pgc.mechanisms import make_mechanism
from pgc.policies import ActorCritic, LossOptions
from pgc.policies.actions import Categorical
from pgc.policies.estimators import PolicyGradient
from pgc.worlds import CartPole, Population


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run what needs the optional extras")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "extra: needs an optional extra or minutes; runs with --all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--all"):
        skip = pytest.mark.skip(reason="needs --all")
        for item in items:
            if "extra" in item.keywords:
                item.add_marker(skip)


PAPER_NET = ActorCritic(observation_dim=4, actions=Categorical(2))


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def make_training(mechanism: str = "laplace", epsilon: float = 1.0, clip: float = 0.01, **settings) -> LocalTraining:
    world = CartPole()
    settings.setdefault("score_bit", None)
    loss = settings.pop("loss", LossOptions())
    return LocalTraining(
        world=world,
        population=Population.parse(world, world.default_population),
        policy=PAPER_NET,
        estimator=PolicyGradient(policy=PAPER_NET, loss=loss, world=world),
        mechanism=make_mechanism(mechanism, dim=PAPER_NET.dim, epsilon=epsilon, clip=clip),
        **settings,
    )


def make_aggregator(learning_rate: float = 0.5, buffer_size: int = 1, **settings) -> Aggregator:
    return Aggregator(optimizer=optax.sgd(1.0), learning_rate=learning_rate, buffer_size=buffer_size, **settings)
