"""`pgc export` and `pgc doctor`: a learnt policy elsewhere, and what is installed."""

import json

import numpy as np
import pytest

import pgc
from pgc.cli.doctor import extras
from pgc.cli.main import main
from pgc.config import configure
from pgc.config.problem import build
from pgc.errors import PgcError
from pgc.local_training.learnt import LearntPolicy, policy_notes
from pgc.privacy.statement import privacy_statement
from pgc.runs.export import onnx_model, torch_module
from pgc.runs.in_progress import RunInProgress

SETTINGS = [
    {"population": ("gravity=9,10",)},
    {"world": "acrobot", "activation": "tanh", "hidden": (8, 4), "biases": True},
    {"world": "pendulum", "hidden": (), "constant": True},
]


def policy_of(settings) -> LearntPolicy:
    recipe = build(configure(**settings)).training.recipe
    return LearntPolicy(np.random.default_rng(3).normal(size=recipe.dim), recipe)


def observations_for(policy, n=200):
    """Some of them on either side of the public box."""
    low, high = np.array(policy.recipe.bounds).T
    inside = np.random.default_rng(4).uniform(-0.5, 1.5, size=(n, len(low)))
    return (low + (high - low) * inside).astype(np.float32)


@pytest.fixture
def run(tmp_path):
    """A finished run, without the time that it takes to train."""
    problem = build(configure(epsilon=0.5, submissions=50))
    run = RunInProgress.create(tmp_path / "run", problem.config)
    theta = np.random.default_rng(0).normal(size=(1, 112)).astype(np.float32)
    run.folder.write_arrays(
        "policy.safetensors",
        {"theta": theta, "averaged": theta + 1},
        policy_notes(problem.training.recipe),
    )
    run.folder.write_json("privacy.json", privacy_statement(problem))
    run.folder.write_json("summary.json", {"fst": [], "received": 50, "averaged_score_mean": 12.5})
    return run.path


@pytest.mark.extra
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_an_onnx_model_acts_as_the_policy_does(settings):
    import onnxruntime

    policy = policy_of(settings)
    seen = observations_for(policy)
    session = onnxruntime.InferenceSession(onnx_model(policy), providers=["CPUExecutionProvider"])
    action, outputs = session.run(["action", "outputs"], {"observation": seen})
    wanted = policy.act(seen)
    if isinstance(policy.recipe.actions, int):
        outputs_sorted = np.sort(policy._outputs(seen.astype(float)), axis=1)
        clear = outputs_sorted[:, -1] - outputs_sorted[:, -2] > 1e-3  # float32 cannot tell the rest
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(action[clear], wanted[clear])
    else:
        np.testing.assert_allclose(action, wanted, rtol=1e-3, atol=1e-3)
        assert (np.abs(wanted) == 2.0).any()  # some actions are at the end of their range
    np.testing.assert_allclose(outputs, policy._outputs(seen.astype(float)), rtol=1e-3, atol=1e-3)


@pytest.mark.extra
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_torch_module_has_the_policys_outputs(settings):
    import torch

    policy = policy_of(settings)
    seen = observations_for(policy)
    with torch.no_grad():
        made = torch_module(policy)(torch.from_numpy(seen)).numpy()
    np.testing.assert_allclose(made, policy._outputs(seen.astype(float)), rtol=1e-3, atol=1e-3)


@pytest.mark.extra
def test_what_went_to_torch_comes_back_as_a_start(run, tmp_path):
    made = pgc.export(run, to="torch", out=tmp_path / "policy.pt")
    config = configure(start=str(made), subspace="full", local_episodes=1)
    problem = build(config)
    again = LearntPolicy(np.array(problem.initial.given), problem.training.recipe)
    before = pgc.load(run)
    seen = observations_for(before)
    np.testing.assert_allclose(
        again._outputs(seen.astype(float)),
        before._outputs(seen.astype(float)),
        rtol=1e-3,
        atol=1e-3,
    )


@pytest.mark.more
def test_a_hub_folder_has_a_privacy_card(run, tmp_path, capsys):
    assert main(["export", str(run), "--out", str(tmp_path / "hub")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "hub")
    card = (tmp_path / "hub" / "README.md").read_text()
    for line in (
        "| ε of one agent, in all | 0.5 |",
        "| ε of one report | 0.5 |",
        "| Unit of privacy | one agent: its ψ",
        "| Not protected | that an agent takes part",
        "claimed ε = 0.5; found, with 99% confidence together: simulated at least 0.",
        "`pgc audit --mechanism index --epsilon 0.5`",
        "differential-privacy",
    ):
        assert line in card, line
    assert pgc.load(tmp_path / "hub" / "policy.safetensors").act([0.0] * 4) == pgc.load(run).act(
        [0.0] * 4
    )
    with pytest.raises(PgcError, match="not empty"):
        pgc.export(run, out=tmp_path / "hub")
    card = (pgc.export(run, out=tmp_path / "again") / "README.md").read_text()
    assert "| Audit of the mechanism | not audited here |" in card
    with pytest.raises(PgcError, match="choose torch, onnx or hub"):
        pgc.export(run, to="cobol")


def test_the_card_of_a_run_without_privacy_says_so(run, tmp_path):
    said = json.loads((run / "privacy.json").read_text())
    said |= {"epsilon": None, "epsilon_per_report": None}
    (run / "privacy.json").write_text(json.dumps(said))
    card = (pgc.export(run, out=tmp_path / "hub") / "README.md").read_text()
    assert "| ε of one agent, in all | none: no privacy |" in card
    assert "differential-privacy" not in card


def test_doctor_says_what_is_there_and_what_is_missing(capsys, monkeypatch):
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pgc"] == pgc.__version__ and "cpu" in said["devices"]
    have, missing = said["extras"]["learn"]
    assert any(name.startswith("jax ") for name in have) and not missing
    import importlib.metadata as metadata

    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    assert all(not have and missing for have, missing in extras().values())
    assert main(["doctor"]) == 0
    assert "pip install 'pgc[train]'" in capsys.readouterr().out
