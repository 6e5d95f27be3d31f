"""θ_0 from somewhere else: the same numbers in every engine, and where they came from in privacy.json."""

import json
import math
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

import pgc
from pgc.config import configure, from_yaml, to_yaml
from pgc.config.problem import build
from pgc.config.start import inline
from pgc.engines import reference
from pgc.engines.backend import simulation_of
from pgc.errors import PgcError
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.numerics.randomness import trial_seed
from pgc.privacy.statement import privacy_statement
from pgc.service.model import Model
from pgc.spaces import Categorical, Gaussian
from tests.conftest import more

THETA = np.linspace(-1, 1, 112).astype(np.float32)
SHORT = {"submissions": 30, "trials": 2, "eval_episodes": 1}


@pytest.fixture
def start(tmp_path):
    np.save(tmp_path / "theta.npy", THETA)
    return str(tmp_path / "theta.npy")


def test_every_engine_starts_there(start):
    problem = build(configure(start=start, **SHORT))
    assert np.array_equal(
        simulation_of(problem).aggregator_field("theta"), np.stack([THETA, THETA])
    )
    assert np.array_equal(Model("m", problem.config).state.theta, THETA)
    host = build(configure(start=start, world="gymnasium:CartPole-v1", bounds=None, **SHORT))
    assert np.array_equal(simulation_of(host).aggregator_field("theta"), np.stack([THETA, THETA]))
    one = build(configure(start=start, submissions=1, buffer_size=5, workers=1, local_episodes=2))
    assert np.array_equal(reference.run(one, seed=trial_seed(0, 0)).state.theta, THETA)


def test_a_config_holds_the_numbers_and_not_the_path(start, tmp_path):
    config = build(configure(start=start)).config
    (tmp_path / "theta.npy").unlink()
    again = build(from_yaml(to_yaml(config)))
    assert again.initial.given == tuple(map(float, THETA)) and str(tmp_path) not in to_yaml(config)


NETWORK = dict(hidden=(8,), activation="tanh", biases=True)


@pytest.mark.parametrize("public", [*more(True), False])
def test_a_run_is_a_start_and_its_privacy_is_said(tmp_path, public):
    epsilon = math.inf if public else 2.0
    first = pgc.train(epsilon=epsilon, public=public, out=tmp_path / "first", **NETWORK, **SHORT)
    # text, a path and a run name the same start; of an array nobody knows where it came from
    array = configure(start=first.policies()["averaged"][0], **NETWORK)
    np.testing.assert_array_equal(
        build(array).initial.given, build(configure(start=first)).initial.given
    )
    assert "unknown" in privacy_statement(build(array))["start"]
    assert build(configure(start=first)).config == build(configure(start=first.path)).config
    again = pgc.train(start=str(first.path), out=tmp_path / "again", **SHORT)
    config = again.config
    assert (config.hidden, config.activation, config.biases) == ((8,), "tanh", True)
    theta = build(config).initial.given
    np.testing.assert_array_equal(np.float32(theta), first.policies()["averaged"][0])
    said = json.loads((again.path / "privacy.json").read_text())
    assert said["start"].startswith("public:" if public else "private: each agent of the run")
    assert any("start" in line for line in said["not_protected"]) == (not public)
    assert json.loads((first.path / "privacy.json").read_text())["public"] is public


def test_a_start_that_was_not_private_is_called_so(tmp_path):
    first = pgc.train(epsilon=math.inf, out=tmp_path / "first", **SHORT)
    again = build(configure(start=str(first.path)))
    assert again.config.start_origin.startswith("NOT private")


def test_code_that_a_start_names_is_not_run(tmp_path):
    first = pgc.train(out=tmp_path / "first", **SHORT)
    named = first.path / "config.yaml"
    named.write_text(named.read_text().replace("policy: actor-critic", "policy: hostile:Policy"))
    with pytest.raises(PgcError, match="if you trust that code"):
        build(configure(start=str(first.path)))


def test_what_is_no_start_is_refused(tmp_path, start):
    save_file({"a": THETA, "b": THETA}, tmp_path / "two.safetensors")
    save_file({"theta": THETA[None]}, tmp_path / "one.safetensors")
    assert build(configure(start=str(tmp_path / "one.safetensors"))).initial.given
    for wrong, why in (
        (str(tmp_path / "none.npy"), "there is no start at"),
        (str(tmp_path / "two.safetensors"), "one vector θ was expected"),
        (str(tmp_path), "cannot be read as a start"),
        ("base64:!!", "start in this config cannot be read"),
        (inline(THETA[:5]), "has 5 numbers, and the network d = 112"),
        (inline(THETA * np.nan), "has 112 numbers"),
    ):
        with pytest.raises(PgcError, match=why):
            build(configure(start=wrong))
    with pytest.raises(PgcError, match="give --epsilon inf"):
        build(configure(public=True))


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["sequential", "stable-baselines3"])
@pytest.mark.parametrize("actions", [Categorical(2), Gaussian((-3.0,), (5.0,))])
def test_a_network_of_pytorch_acts_the_same(tmp_path, kind, actions):
    torch = pytest.importorskip("torch")
    from pgc.config.start import read_start

    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 5), torch.nn.Tanh()]
    head = torch.nn.Linear(5, actions.outputs)
    whole = torch.nn.Sequential(*layers, head)
    if kind == "sequential":
        path = tmp_path / "policy.pt"
        torch.save(whole.state_dict(), path)
    else:
        named = {f"mlp_extractor.policy_net.{k}": v for k, v in whole[:4].state_dict().items()}
        named |= {f"mlp_extractor.value_net.{k}": v for k, v in whole[:4].state_dict().items()}
        named |= {f"action_net.{k}": v for k, v in head.state_dict().items()}
        torch.save(named, tmp_path / "policy.pth")
        path = tmp_path / "policy.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.write(tmp_path / "policy.pth", "policy.pth")
    found = read_start(path, lambda: actions)
    settings = found.settings | {"activation": "tanh"}
    assert found.settings["activation"] == (None if kind == "sequential" else "tanh")
    assert settings.pop("normalize") is False and found.origin.startswith("unknown")
    net = ActorCritic(observation_dim=4, actions=actions, **settings)
    observations = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    ours, _ = net.apply(net.unflatten(jnp.asarray(found.theta)[:, None]), jnp.asarray(observations))
    theirs = whole(torch.from_numpy(observations.T)).detach().numpy().T
    taken = actions.greedy(ours) if isinstance(actions, Gaussian) else ours
    np.testing.assert_allclose(np.asarray(taken), theirs, rtol=1e-4, atol=1e-5)
