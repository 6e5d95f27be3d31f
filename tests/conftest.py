"""Fixtures shared by all tests, and the `--all` switch for what needs the optional extras."""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shutil
import tempfile

# Programs that one test compiles are shared with all others: those of the second worker, and of the processes that tests start.
# The first process of a run makes an empty folder for them, so no run sees what an older one left.
if "PGC_TEST_PROGRAMS" not in os.environ:
    os.environ["PGC_TEST_PROGRAMS"] = MADE_HERE = tempfile.mkdtemp(prefix="pgc-programs-")
else:
    MADE_HERE = None
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ["PGC_TEST_PROGRAMS"]
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import jax
import numpy as np
import optax
import pytest
from hypothesis import settings

from pgc.config import configure
from pgc.config.problem import Problem, build
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.spaces import Categorical
from pgc.update.aggregator import Aggregator
from tests.length import SOAK

settings.register_profile("repeatable", derandomize=True, deadline=None)
if not SOAK:  # which draws other examples each time
    settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="also run what needs the optional extras, and more settings",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "extra: needs an optional extra; runs with --all")
    config.addinivalue_line(
        "markers", "more: one more setting of a test; runs with --all and in the soak"
    )
    config.addinivalue_line("markers", "soak: has a long form, which `make soak` runs")


def pytest_unconfigure() -> None:
    if MADE_HERE is not None:
        shutil.rmtree(MADE_HERE, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("randomly"):
        items.sort(
            key=lambda item: (
                LONGEST_FIRST.index(f)
                if (f := item.location[0]) in LONGEST_FIRST
                else len(LONGEST_FIRST)
            )
        )
    if not config.getoption("--all"):
        for item in items:
            if "extra" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs an optional extra: make test-all"))
            if "more" in item.keywords and not SOAK:
                item.add_marker(pytest.mark.skip(reason="one more setting: make test-all"))


LONGEST_FIRST = [
    "tests/engines/test_compiled.py",
    "tests/privacy/audit/test_mutants.py",
    "tests/cli/test_cli.py",
    "tests/privacy/audit/test_audit.py",
    "tests/engines/test_host.py",
    "tests/service/test_kill.py",
    "tests/service/test_service.py",
    "tests/local_training/estimators/test_loss.py",
    "tests/test_docs.py",
    "tests/randomise/mechanisms/test_sphere.py",
    "tests/runs/test_sweep.py",
    "tests/studies/test_reproduce_command.py",
    "tests/device/test_ledger.py",
    "tests/local_training/test_numpy_player.py",
]
"""Files that take longest: with them first, no worker is left with one of them at the end while the other is idle."""


def more(*settings: object) -> list[object]:
    """Settings that a test has only in `make test-all`: they take long, and show little that its first settings do not."""
    return [pytest.param(setting, marks=pytest.mark.more) for setting in settings]


PAPER_NET = ActorCritic(observation_dim=4, actions=Categorical(2))


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks of devices that a test provisions lie with that test, not with the system or with other tests."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(NUMBERS)}"  # made when one is needed
    monkeypatch.setenv("PGC_STATE", str(folder))


NUMBERS = itertools.count()


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def bits_of_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits of a seed in place of the operating system's, for tests of what is made of bits, wherever they come from.

    That a release takes them from the operating system, and from nowhere else, is tested in `tests/randomise`.
    """
    source, generator = random.Random(0), np.random.default_rng
    monkeypatch.setattr(secrets, "token_bytes", source.randbytes)
    monkeypatch.setattr(secrets, "randbelow", source.randrange)
    monkeypatch.setattr(
        np.random,
        "default_rng",
        lambda seed=None: generator(source.getrandbits(64) if seed is None else seed),
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def paper_problem(**settings) -> Problem:
    """The paper's system, with some settings changed."""
    return build(configure(preset="paper", **{"trials": 1, "submissions": 40, **settings}))


def make_aggregator(learning_rate: float = 0.5, buffer_size: int = 1, **settings) -> Aggregator:
    return Aggregator(
        optimizer=optax.sgd(1.0), learning_rate=learning_rate, buffer_size=buffer_size, **settings
    )
