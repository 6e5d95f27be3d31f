"""What `pgc train` says where something looks wrong."""

import numpy as np

import pgc
from pgc.config import configure
from pgc.config.problem import build
from pgc.runs.episode import outside_the_box

HOST = dict(
    world="gymnasium:CartPole-v1", max_steps=200, threshold=195.0, local_episodes=4, workers=3,
    submissions=5, eval_episodes=2, processes=1,
)  # fmt: skip
BOX = ("0=-0.3:0.3", "1=-2:2", "2=-0.3:0.3", "3=-3:3")


def test_a_run_that_cannot_have_learnt_says_so(tmp_path):
    said = pgc.train(**HOST, bounds=BOX, out=tmp_path / "run").summary["warnings"]
    assert [words.split(":")[0] for words in said] == ["no trial succeeded", "θ was never updated"]
    assert "--buffer-size" in said[1]


def test_a_box_that_observations_leave_is_named(tmp_path):
    """A lever of 0.03 rad is far outside 0 to 0.0001 from the first step on."""
    wrong = (*BOX[:2], "2=0:0.0001", BOX[3])
    said = pgc.train(**HOST, bounds=wrong, out=tmp_path / "run").summary["warnings"]
    (about,) = [words for words in said if "public box" in words]
    assert "number 2 was far outside 0 … 0.0001" in about and "--bounds 2=low:high" in about


def test_a_compiled_world_is_looked_at_as_well():
    problem = build(configure(bounds=("0=-3:3", "1=-0.000001:0.000001")))
    theta = np.zeros(problem.training.policy.dim, np.float32)
    assert [i for i, _ in outside_the_box(problem, theta)] == [1]
