"""`pgc.load`: a learnt policy acts as it did when it was evaluated."""

import math
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pgc
from pgc.errors import PgcError
from pgc.local_training.learnt import LearntPolicy, noted_recipe, policy_notes
from pgc.local_training.recipe import Recipe
from tests.conftest import more

SMALL = dict(submissions=12, trials=2, eval_episodes=2, workers=3, local_episodes=2, seed=3)
WORLDS = {
    "cartpole": dict(),
    "pendulum": dict(activation="tanh", hidden=(5, 4), biases=True),
    "acrobot": dict(normalize=False),
    "mountain-car": dict(),  # its box is not centred on 0, so a shift that is lost shows
}


@pytest.fixture(scope="module", params=["cartpole", "pendulum", "mountain-car", *more("acrobot")])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return pgc.train(world=request.param, out=out, **SMALL, **WORLDS[request.param])


def outputs(run, which, trial, rows):
    """The network's outputs, by its definition in JAX."""
    policy = run.problem().training.policy
    theta = jnp.asarray(run.policies()[which][trial])
    return np.asarray(policy.apply(policy.unflatten(theta[:, None]), jnp.asarray(rows.T))[0]).T


@pytest.mark.parametrize(("which", "trial"), [("averaged", 0), ("theta", 1)])
def test_it_acts_as_the_network_does(run, which, trial, rng):
    policy = pgc.load(str(run.path), trial=trial, which=which)
    low, high = np.array(policy.recipe.bounds).T
    rows = rng.uniform(1.5 * low, 1.5 * high, size=(200, len(low))).astype(np.float32)
    wanted, found = outputs(run, which, trial, rows), policy.act(rows)
    if isinstance(policy.recipe.actions, int):
        best = np.sort(wanted, axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-4  # float32 may order near ties otherwise
        assert clear.sum() > 150
        assert (found[clear] == wanted.argmax(axis=1)[clear]).all()
        assert isinstance(policy.act(rows[0]), int) and policy.act(rows[0]) == found[0]
        np.testing.assert_allclose(
            policy.probabilities(rows), np.asarray(jnp.exp(wanted - _log_sum(wanted))), atol=1e-4
        )
        assert policy.probabilities(rows[0]).shape == (policy.recipe.actions,)
    else:
        np.testing.assert_allclose(found, np.clip(2 * wanted, -2, 2), atol=1e-4)
        np.testing.assert_allclose(policy.act(rows[0]), found[0], rtol=1e-9)
        with pytest.raises(PgcError, match="continuous"):
            policy.probabilities(rows)


def _log_sum(x):
    return np.log(np.exp(x).sum(axis=1, keepdims=True))


def test_the_file_alone_is_enough_and_an_older_run_is_read(run, tmp_path, rng):
    """A file from before says nothing about its network; the config beside it does."""
    copy = tmp_path / "run"
    shutil.copytree(run.path, copy)
    alone = tmp_path / "mine.safetensors"
    shutil.copy(copy / "policy.safetensors", alone)
    save_file(load_file(alone), copy / "policy.safetensors")  # without its notes
    new, file, old = (pgc.load(path) for path in (run.path, alone, copy))
    assert new.recipe == file.recipe == old.recipe
    row = rng.normal(size=len(new.recipe.bounds))
    assert np.array_equal(new.act(row), file.act(row)) and np.array_equal(
        new.act(row), old.act(row)
    )
    save_file(load_file(alone), alone)
    with pytest.raises(PgcError, match="name the folder of its run"):
        pgc.load(alone)


def test_what_cannot_be_loaded_is_one_line(tmp_path):
    run = pgc.train(out=tmp_path / "run", **SMALL)
    with pytest.raises(PgcError, match="there is no 2"):
        pgc.load(run.path, trial=2)
    with pytest.raises(PgcError, match="holds no policy"):
        pgc.load(tmp_path)
    with pytest.raises(PgcError, match="has 4 numbers"):
        pgc.load(run.path).act([0.0, 1.0])
    arrays = load_file(run.path / "policy.safetensors")
    for notes in ("{}", "[]", '{"bounds": 3}', "no JSON"):
        save_file(arrays, run.path / "policy.safetensors", {"recipe": notes})
        with pytest.raises(PgcError, match="cannot be read"):
            pgc.load(run.path)


def test_a_recipe_comes_back_whole():
    made = pgc.worlds.make_world("pendulum").in_recipe
    for changes in (dict(), dict(activation="tanh", hidden=(3,), score_threshold=math.inf)):
        recipe = Recipe(**(made | changes))
        assert noted_recipe(policy_notes(recipe)) == recipe
    assert policy_notes(None) is None and noted_recipe({}) is None


def test_scaling_is_part_of_the_first_layer(rng):
    """The same θ with another box is another policy: a file must carry the box."""
    made = pgc.worlds.make_world("acrobot").in_recipe
    recipe = Recipe(**made, hidden=())
    other = Recipe(**(made | {"bounds": ((-3.0, 1.0),) * 6}), hidden=())
    theta = rng.normal(size=recipe.dim)
    rows = rng.normal(size=(300, 6))
    assert (LearntPolicy(theta, recipe).act(rows) != LearntPolicy(theta, other).act(rows)).any()
