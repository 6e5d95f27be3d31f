"""`pgc pretrain`: a public start and learnt directions, and private learning in them."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import pgc
from pgc.cli.main import main
from pgc.config import configure, from_yaml, to_yaml
from pgc.config.problem import build
from pgc.config.start import inline
from pgc.engines import reference
from pgc.errors import PgcError
from pgc.numerics.randomness import trial_seed
from pgc.runs.pretrain import pretrain, principal
from pgc.service.model import Model

SMALL = {"generations": 4, "episodes": 4, "worlds": 3, "directions": 2}
VARY = ("gravity=5:20",)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained") / "lander"
    return pretrain(vary=VARY, out=folder, **SMALL)


def test_the_folder_says_what_was_found(made):
    arrays = load_file(made.path / "policy.safetensors")
    assert arrays["directions"].shape == (2, 112) and arrays["theta"].shape == (1, 112)
    summary = made.summary
    assert len(summary["worlds"]) == 3 == len(summary["robust"])
    assert all(5 <= home["psi"]["gravity"] <= 20 for home in summary["worlds"])
    said = json.loads((made.path / "privacy.json").read_text())
    assert said["public"] is True
    assert pgc.load(made.path).act([0.0, 0.0, 0.0, 0.0]) in (0, 1)


def test_the_same_seed_finds_the_same(made, tmp_path):
    again = pretrain(vary=VARY, out=tmp_path / "again", **SMALL)
    one, two = (load_file(folder.path / "policy.safetensors") for folder in (made, again))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_agents_report_in_the_learnt_directions_alone(made):
    config = configure(start=str(made.path), subspace="learnt", submissions=30, epsilon=2.0)
    problem = build(config)
    assert problem.randomiser.mechanism.dim == 2 and problem.config.spread == 0.6
    arrays = load_file(made.path / "policy.safetensors")
    theta_0, directions = arrays["averaged"][0], arrays["directions"]
    np.testing.assert_array_equal(problem.deliverer.basis(jnp.asarray(theta_0)), directions.T)
    moved = reference.run(problem, seed=trial_seed(0, 0)).state.theta - theta_0
    assert np.linalg.norm(moved) > 0.01
    inside = np.linalg.lstsq(directions.T, moved, rcond=None)[0]
    np.testing.assert_allclose(directions.T @ inside, moved, atol=1e-4)


def test_a_config_holds_the_directions_and_an_offer_carries_them(made):
    config = build(configure(start=str(made.path), subspace="learnt")).config
    again = build(from_yaml(to_yaml(config).replace(str(made.path), "gone")))
    assert again.config == config
    template = Model("m", config).published.template
    directions = load_file(made.path / "policy.safetensors")["directions"]
    np.testing.assert_array_equal(template.basis, directions.T)


def test_principal_directions_are_as_long_as_one_deviation():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4000, 3)) * [3.0, 1.0, 0.1] + 7
    found = principal(points, 2)
    np.testing.assert_allclose(np.abs(found), [[3, 0, 0], [0, 1, 0]], atol=0.12)


def test_what_cannot_be_done_is_said(made, tmp_path):
    with pytest.raises(PgcError, match="needs the folder of a pgc pretrain"):
        build(configure(subspace="learnt"))
    usual = pretrain(out=tmp_path / "usual", generations=1, episodes=1)
    with pytest.raises(PgcError, match="no learnt directions"):
        build(configure(start=str(usual.path), subspace="learnt"))
    with pytest.raises(PgcError, match="differ in at most 2 directions"):
        pretrain(vary=VARY, worlds=3, directions=3, out=tmp_path / "many")
    with pytest.raises(PgcError, match="has none"):
        pretrain(subspace="full", out=tmp_path / "full")
    with pytest.raises(PgcError, match="do not belong to a network"):
        build(
            configure(start=inline(np.zeros(112)), subspace="learnt", directions=inline(np.ones(1)))
        )


def test_the_command_says_what_it_found(tmp_path, capsys):
    folder = str(tmp_path / "out")
    flags = ["--generations", "2", "--episodes", "2", "--worlds", "3", "--directions", "2"]
    assert (
        main(["pretrain", "--vary", "gravity=5:20", *flags, "--skip-robust", "--out", folder]) == 0
    )
    said = capsys.readouterr().out
    assert "usual world" in said and "its own" in said and said.strip().endswith(folder)
    assert "one for all" not in said
    assert main(["evaluate", folder, "--episodes", "2"]) == 0
