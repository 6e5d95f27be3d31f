"""LunarLander: a heavy environment, with ψ by its constructor's arguments."""

import pytest

import pgc
from pgc.local_training.worlds.registry import make_world

pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore"),
]  # Box2D warns while it is imported, and dies of an error


def test_psi_by_the_constructor():
    world = make_world("gymnasium:LunarLander-v3")
    assert world.score_threshold == 200 and world.max_steps == 1000
    assert world.make(world.default_psi._replace(gravity=-8.0)).gravity == -8.0


def test_it_is_learnt_under_privacy(tmp_path):
    """ε = 2, few reports: better than pure noise by far. (docs/scale.md has the whole run.)"""
    settings = dict(
        world="gymnasium:LunarLander-v3", epsilon=2.0, submissions=400, eval_episodes=30
    )
    settings["population"] = ("gravity=-11,-10,-9",)
    learnt = pgc.train(out=tmp_path / "learnt", **settings).summary
    control = pgc.train(out=tmp_path / "control", control=True, **settings).summary
    assert learnt["averaged_score_mean"] > control["averaged_score_mean"] + 30, (learnt, control)
