"""`pgc pretrain`: a public start and learnt directions, and private learning in them."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pgc
from pgc.cli.main import main
from pgc.config import configure, from_yaml, to_yaml
from pgc.config.problem import build
from pgc.config.start import inline
from pgc.engines import reference
from pgc.errors import PgcError
from pgc.numerics.randomness import trial_seed
from pgc.privacy.statement import privacy_statement
from pgc.runs.directions import comparable, of_one_size, principal
from pgc.runs.in_progress import RunInProgress
from pgc.runs.pretrain import _population, pretrain
from pgc.service.model import Model
from tests import signalled
from tests.waiting import LIMIT

SMALL = {"world": "mountain-car", "generations": 4, "episodes": 4, "worlds": 4, "directions": 2}
VARY = ("gravity=0.002:0.004",)
FLAGS = [
    "--world",
    "mountain-car",
    "--vary",
    "gravity=0.002:0.004",
    "--generations",
    "4",
    "--episodes",
    "4",
    "--worlds",
    "4",
    "--directions",
    "2",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return pretrain(vary=VARY, out=tmp_path_factory.mktemp("pretrained") / "car", **SMALL)


def arrays_of(folder):
    return load_file(folder / "policy.safetensors")


def test_the_folder_says_what_was_found(made):
    arrays, summary = arrays_of(made.path), made.summary
    assert arrays["directions"].shape == (2, arrays["theta"].shape[1])
    assert len(summary["homes"]) == 4 and summary["start"] in ("usual", "one for all")
    assert all(0.002 <= home["psi"]["gravity"] <= 0.004 for home in summary["homes"])
    assert np.mean([home["own"] for home in summary["homes"]]) > -200  # some of them arrive
    assert json.loads((made.path / "privacy.json").read_text())["public"] is True
    assert pgc.load(made.path).act([-0.5, 0.0]) in (0, 1, 2)
    assert not (made.path / "searches.safetensors").exists()


def test_the_same_seed_finds_the_same_also_after_a_kill_and_ctrl_c(made, tmp_path):
    out = tmp_path / "again"
    killed = signalled.start("SIGKILL", "searches.safetensors", 3, "pretrain", *FLAGS, "--out", out)
    killed.communicate(timeout=LIMIT)
    assert killed.returncode == -9 and set(load_file(out / "searches.safetensors")) == {"0", "1"}
    with pytest.raises(PgcError, match="not a run folder"):
        pgc.train(resume=out)
    with pytest.raises(PgcError, match="cannot be read as a start"):
        build(configure(start=str(out)))
    with pytest.raises(PgcError, match="give nothing else"):
        pretrain(resume=out, vary=VARY)
    stopped = signalled.start("SIGINT", "searches.safetensors", 1, "pretrain", "--resume", out)
    _, said = stopped.communicate(timeout=LIMIT)
    assert stopped.returncode == 130 and f"pgc pretrain --resume {out}" in said
    assert set(load_file(out / "searches.safetensors")) == {"0", "1", "2"}
    again = pretrain(resume=out)
    one, two = arrays_of(made.path), arrays_of(again.path)
    assert set(one) == set(two) and all(np.array_equal(one[name], two[name]) for name in one)
    assert again.summary["homes"] == made.summary["homes"]
    assert pretrain(resume=out).summary == again.summary  # and nothing is done again


def test_agents_report_in_the_learnt_directions_alone(made):
    config = configure(
        world="mountain-car", start=str(made.path), subspace="learnt", submissions=30, epsilon=2.0
    )
    problem = build(config)
    assert problem.randomiser.mechanism.dim == 2 and problem.config.spread == 0.6
    assert problem.config.local_episodes == 20
    arrays = arrays_of(made.path)
    theta_0, directions = arrays["averaged"][0], arrays["directions"]
    np.testing.assert_array_equal(problem.deliverer.basis(jnp.asarray(theta_0)), directions.T)
    uncapped = build(
        configure(
            world="mountain-car", start=str(made.path), subspace="learnt", submissions=10,
            local_episodes=2, epsilon=2.0, output_cap=float("inf"), max_steps=None,
        )
    )  # fmt: skip
    moved = reference.run(uncapped, seed=trial_seed(0, 0)).state.theta - theta_0
    assert np.linalg.norm(moved) > 0.001
    inside = np.linalg.lstsq(directions.T, moved, rcond=None)[0]
    np.testing.assert_allclose(directions.T @ inside, moved, atol=1e-4)


def test_a_config_holds_the_directions_and_an_offer_carries_them(made):
    config = build(configure(world="mountain-car", start=str(made.path), subspace="learnt")).config
    again = build(from_yaml(to_yaml(config).replace(str(made.path), "gone")))
    assert again.config == config
    template = Model("m", config).published.template
    np.testing.assert_array_equal(template.basis, arrays_of(made.path)["directions"].T)


def test_what_learnt_in_the_directions_is_a_start_for_more(made, tmp_path):
    problem = build(configure(world="mountain-car", start=str(made.path), subspace="learnt"))
    learnt = RunInProgress.create(tmp_path / "learnt", problem.config)
    theta = arrays_of(made.path)["averaged"]
    learnt.folder.write_arrays("policy.safetensors", {"theta": theta, "averaged": theta})
    learnt.folder.write_json("privacy.json", privacy_statement(problem))
    for start in (learnt.path, made.path / "policy.safetensors"):
        config = configure(world="mountain-car", start=str(start), subspace="learnt", hidden=(16,))
        assert build(config).config.learnt_directions == problem.config.learnt_directions


def test_where_a_start_came_from_is_never_lost(made, tmp_path):
    def statement(**settings):
        return privacy_statement(build(configure(world="mountain-car", **settings)))

    theta = inline(arrays_of(made.path)["theta"][0])
    origin = "private: each agent of the run that it came from spent ε = 2 on it"
    simulated = pretrain(
        world="mountain-car", start=theta, start_origin=origin, generations=1, episodes=4,
        out=tmp_path / "simulated",
    )  # fmt: skip
    said = json.loads((simulated.path / "privacy.json").read_text())
    assert said["public"] and len(said["not_protected"]) == 1
    assert "spent ε = 2" in said["not_protected"][0]
    last = statement(start=str(simulated.path))
    assert "spent ε = 2" in last["start"] and not last["start"].startswith("public")
    assert any("spent ε = 2" in text for text in last["not_protected"])
    assert statement(start=str(made.path))["start"].startswith("public")
    once_more = statement(start=str(made.path), public=True, epsilon=float("inf"))
    assert once_more["not_protected"] == [
        "nothing needs protection: the agents are a public simulator's"
    ]
    assert statement(start=theta)["start"].startswith("unknown")


def test_principal_directions_are_as_long_as_the_steps_along_them():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(4000, 3)) * [3.0, 1.0, 0.1]
    np.testing.assert_allclose(np.abs(principal(steps, 2)), [[3, 0, 0], [0, 1, 0]], atol=0.12)
    assert principal(steps * [1, 1, 0.01], 3).shape == (2, 3)  # what hardly differs is left out
    common = np.tile([0.0, 2.0, 0.0], (5, 1))  # a step that all homes have in common is a direction
    np.testing.assert_allclose(principal(common, 2), [[0, 2, 0]])
    assert principal(np.zeros((5, 3)), 2).shape == (0, 3)


def test_how_large_a_search_left_the_outputs_makes_no_difference():
    problem = build(configure(world="mountain-car", subspace="linear", hidden=(), initial="glorot"))
    cap, rng = problem.aggregator.cap, np.random.default_rng(1)
    theta = of_one_size(cap, rng.normal(size=problem.training.policy.dim))
    assert float(cap.size(jnp.asarray(theta, jnp.float32))) == pytest.approx(1.0, rel=1e-3)
    basis = np.asarray(problem.deliverer.basis(jnp.asarray(theta, jnp.float32)), float)
    xs = 0.3 * rng.normal(size=(5, basis.shape[1]))
    theta = basis @ np.linalg.lstsq(basis, theta, rcond=None)[0]  # so that θ can be scaled in them
    scaled = [f * (theta + basis @ x) - theta for f, x in zip((0.5, 2, 1, 3, 0.8), xs, strict=True)]
    again = np.stack([np.linalg.lstsq(basis, moved, rcond=None)[0] for moved in scaled])
    plain, same = (comparable(cap, theta, basis, points) for points in (xs, again))
    np.testing.assert_allclose(same, plain, atol=2e-4)
    assert np.abs(again - xs).max() > 0.3


def test_homes_differ_from_the_usual_world_in_what_varies_alone():
    config = configure(population=("length=0.8", "gravity=9,10"), public=True, epsilon=float("inf"))
    varied = _population(build(config), ("gravity=5:15",))
    assert varied.pick([0.0, 0.5]) == varied.base._replace(length=0.8, gravity=10.0)


def test_homes_whose_own_policies_are_no_better_teach_no_directions(tmp_path):
    # nobody arrives in 4 episodes of 2 generations, wherever the home is
    folder = pretrain(
        **SMALL | {"generations": 1, "spread": 1e-9}, vary=VARY, out=tmp_path / "alike"
    )
    assert folder.summary["directions"] == 0 and "directions" not in arrays_of(folder.path)
    assert all(home["own"] == home["usual"] for home in folder.summary["homes"])
    with pytest.raises(PgcError, match="no learnt directions"):
        build(configure(world="mountain-car", start=str(folder.path), subspace="learnt"))


def test_what_cannot_be_done_is_said_before_anything_is_made(made, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(PgcError, match="needs the folder of a pgc pretrain"):
        build(configure(subspace="learnt"))
    for wrong, words in (
        ({"vary": VARY, "worlds": 3, "directions": 3}, "3 worlds differ in at most 2"),
        ({"vary": VARY, "worlds": 3, "directions": 1}, "from 2 to 2"),
        ({"vary": ("gravity=1:2:3",)}, "range low:high"),
        ({"vary": ("colour=1:2",)}, "FIELD one of"),
        ({"subspace": "full"}, "has none"),
        ({"generations": 0}, "generations must be at least 1"),
    ):
        with pytest.raises(PgcError, match=words):
            pretrain(world="mountain-car", out=out, **wrong)
        assert not out.exists()
    with pytest.raises(PgcError, match="do not belong to a network"):
        build(
            configure(
                start=inline(np.zeros(112)), subspace="learnt", learnt_directions=inline(np.ones(1))
            )
        )
    wrong = dict(arrays_of(made.path), directions=np.ones((2, 5), np.float32))
    save_file(wrong, tmp_path / "wrong.safetensors")
    with pytest.raises(PgcError, match="do not belong to its policy"):
        build(
            configure(
                world="mountain-car", start=str(tmp_path / "wrong.safetensors"), subspace="learnt"
            )
        )


def test_the_command_says_what_it_found(tmp_path, capsys):
    folder = str(tmp_path / "out")
    assert main(["pretrain", *FLAGS, "--skip-robust", "--out", folder]) == 0
    said = capsys.readouterr().out
    assert "usual world" in said and "gravity = " in said and said.strip().endswith(folder)
    assert "one for all" not in said and "directions for --subspace learnt: 2" in said
    assert main(["evaluate", folder, "--episodes", "2"]) == 0
    capsys.readouterr()
    assert main(["pretrain", "--resume", folder, "--seed", "1"]) == 2
    assert "drop --seed" in capsys.readouterr().err


def test_importing_pgc_for_pretraining_is_lazy():
    done = subprocess.run(
        [sys.executable, "-c", "import pgc, sys; pgc.pretrain; assert 'cmaes' not in sys.modules"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
