"""One description of step 2, and every player knows all of it."""

from dataclasses import fields

import pytest

from pgc.config import configure
from pgc.config.problem import build
from pgc.local_training.recipe import LossOptions
from tests.local_training.estimators.test_loss import CHOICES
from tests.local_training.test_numpy_player import SETTINGS


@pytest.mark.parametrize("name", [f.name for f in fields(LossOptions)])
def test_every_loss_option_is_compared_between_the_players(name):
    """With a value that is not the default: a player that does not know the option then differs from the definition."""
    usual = getattr(LossOptions(), name)
    streamed = [
        getattr(case.values[0] if hasattr(case, "values") else case, name) for case in CHOICES
    ]
    on_devices = [
        getattr(build(configure(**settings)).training.recipe, name)
        for settings in SETTINGS.values()
    ]
    assert set(streamed) - {usual}, (
        f"tests/local_training/estimators/test_loss.py never varies {name}"
    )
    assert set(on_devices) - {usual}, (
        f"tests/local_training/test_numpy_player.py never varies {name}"
    )
