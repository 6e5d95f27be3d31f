"""What `pgc train` says where something looks wrong."""

import numpy as np

import pgc
from pgc.config import configure
from pgc.config.problem import build
from pgc.runs.episode import outside_the_box, too_wide, usual_observations

HOST = dict(
    world="gymnasium:CartPole-v1", max_steps=200, threshold=195.0, local_episodes=4, workers=3,
    submissions=5, eval_episodes=2, processes=1,
)  # fmt: skip
BOX = ("0=-0.3:0.3", "1=-2:2", "2=-0.3:0.3", "3=-3:3")


def test_a_run_that_cannot_have_learnt_says_so(tmp_path):
    said = pgc.train(**HOST, bounds=BOX, out=tmp_path / "run").summary["warnings"]
    assert [words[:20] for words in said] == [
        "5 submissions are to", "all homes were alike", "θ was never updated:",
    ]  # fmt: skip
    assert "--buffer-size" in said[-1]


def test_a_box_that_observations_leave_is_named(tmp_path):
    """A lever of 0.03 rad is far outside 0 to 0.0001 from the first step on."""
    wrong = (*BOX[:2], "2=0:0.0001", BOX[3])
    said = pgc.train(**HOST, bounds=wrong, out=tmp_path / "run").summary["warnings"]
    (about,) = [words for words in said if "public box" in words]
    assert "number 2 was far outside 0 … 0.0001" in about and "--bounds 2=low:high" in about


def test_a_compiled_world_is_looked_at_as_well():
    problem = build(configure())
    seen = usual_observations(problem, np.zeros(problem.training.policy.dim, np.float32))
    assert len(seen) > 5 and seen.shape[1] == 4
    narrow, wide = (-1e-6, 1e-6), (-1000.0, 1000.0)
    box = (wide, narrow, (-0.3, 0.3), (-3.0, 3.0))
    assert [i for i, _ in outside_the_box(box, seen)] == [1]
    assert [i for i, _ in too_wide(box, seen)] == [0]


def test_homes_that_are_all_alike_are_noticed(tmp_path):
    said = pgc.train(**HOST, bounds=BOX, out=tmp_path / "run").summary["warnings"]
    assert any(words.startswith("all homes were alike; --population FIELD") for words in said)
    differ = {**HOST, "population": "length=0.3,0.7"}
    said = pgc.train(**differ, bounds=BOX, out=tmp_path / "differ").summary["warnings"]
    assert not any("alike" in words for words in said)
