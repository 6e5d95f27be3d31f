"""A compiled world of one's own: mistakes are one line, and actions stay within their range."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from pgc.worlds import CompiledWorld, Transition

import pgc
from pgc.config import configure
from pgc.config.problem import build
from pgc.errors import PgcError
from pgc.local_training.worlds.own import own_world
from pgc.local_training.worlds.registry import WORLDS
from pgc.runs.in_progress import RunInProgress
from pgc.runs.run import Run
from pgc.spaces import Categorical, Gaussian


class Psi(NamedTuple):
    wind: float = 0.1


class Sled(CompiledWorld):
    observation_dim, max_steps, score_threshold = 1, 20, 15.0
    actions = Gaussian(low=(-1.0,), high=(1.0,))
    observation_bounds = ((-1.0, 1.0),)
    default_psi = Psi()

    def reset(self, key, psi):
        return jax.random.uniform(key, minval=-0.5, maxval=0.5)

    def step(self, key, state, action, psi):
        state = state + 0.1 * action[0] + 0.1 * psi.wind
        return Transition(state, 1.0 - jnp.abs(state), jnp.abs(state) > 2)

    def observe(self, state):
        return state[None]


class Wide(Sled):
    def observe(self, state):
        return jnp.stack([state, state])


class Branches(Sled):
    def step(self, key, state, action, psi):
        return super().step(key, state if state > 0 else -state, action, psi)


class Tuples(Sled):
    def step(self, key, state, action, psi):
        return tuple(super().step(key, state, action, psi))


class Scalar(Sled):
    actions = Categorical(2)  # an action is a number, not a vector


class Vector(Sled):
    def step(self, key, state, action, psi):
        return super().step(key, state, action, psi)._replace(reward=state[None])


class Grows(Sled):
    def step(self, key, state, action, psi):
        return super().step(key, state, action, psi)._replace(state=jnp.stack([state, state]))


class Counts(Sled):
    def reset(self, key, psi):
        return jnp.asarray(0, jnp.int32)


class Ends(Sled):
    def step(self, key, state, action, psi):
        return super().step(key, state, action, psi)._replace(terminated=jnp.zeros(()))


@jax.tree_util.register_pytree_node_class
class Place:
    """A state that is a tree of its own kind, and does not say when two are equal."""

    def __init__(self, at):
        self.at = at

    def tree_flatten(self):
        return (self.at,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


class Trees(Sled):
    def reset(self, key, psi):
        return Place(super().reset(key, psi))

    def step(self, key, state, action, psi):
        moved = super().step(key, state.at, action, psi)
        return moved._replace(state=Place(moved.state))

    def observe(self, state):
        return state.at[None]


class Boxes(Sled):
    observation_bounds = ((-1.0, 1.0), (-1.0, 1.0))


class Swapped(Sled):
    observation_bounds = ((1.0, -1.0),)


class Needs(Sled):
    def __init__(self, wind):
        self.wind = wind


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Wide, r"observe returns the shape \(2,\), and observation_dim is 1"),
        (Branches, "step cannot be compiled by JAX .*Tracer"),
        (Tuples, "step must return a Transition"),
        (Scalar, "step cannot be compiled by JAX"),
        (Vector, "step returns a reward of shape"),
        (Grows, "a state that is not like that of reset"),
        (Counts, "a state that is not like that of reset"),
        (Ends, "a terminated of type float32, not a boolean"),
        (Boxes, "2 observation_bounds, and observation_dim is 1"),
        (Swapped, r"observation_bounds\[0\] of mine:World is \(1, -1\), which is no range"),
        (Needs, "cannot be made"),
    ],
)
def test_a_mistake_is_one_line(kind, why):
    with pytest.raises(PgcError, match=why) as refused:
        own_world(kind, "mine:World")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("low", "high"), [((1.0,), (-1.0,)), ((0.0,), (math.inf,)), ((0.0,), (1.0, 1.0))]
)
def test_actions_need_a_range(low, high):
    with pytest.raises(PgcError, match="have no range"):
        Gaussian(low=low, high=high)


def test_any_tree_can_be_a_state():
    assert own_world(Trees, "trees").observation_dim == 1


def test_actions_reach_a_world_within_their_range():
    world = own_world(Sled, "sled")
    moved = world.step(None, jnp.zeros(()), jnp.asarray([7.0]), Psi(wind=0.0))
    assert float(moved.state) == pytest.approx(0.1)


def test_a_class_in_a_notebook_or_a_registered_one_is_a_world(monkeypatch):
    by_class = build(configure(world=Sled, population="wind=0:0.2"))
    assert by_class.config.world == f"{__name__}:Sled" and by_class.training.world.max_steps == 20
    monkeypatch.setitem(WORLDS, "sled", Sled)
    assert build(configure(world="sled", threshold=5.0)).training.world.score_threshold == 5.0


def test_a_run_that_failed_at_its_start_leaves_its_folder_free(tmp_path, monkeypatch):
    from pgc.runs import train as module

    def fail(*_):
        raise RuntimeError("while it compiled")

    monkeypatch.setattr(module, "simulation_of", fail)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="while it compiled"):
            pgc.train(world=Sled, out=tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_a_run_that_had_written_something_is_kept_for_resume(tmp_path, monkeypatch):
    """Such as where the disk was full: half a file is left, and the message says --resume."""
    from pgc.runs import train as module

    def fill(run, *_):
        (run.path / "metrics" / "part-00000.parquet.tmp").write_bytes(b"half")
        raise PgcError("cannot write")

    monkeypatch.setattr(module, "Session", fill)
    with pytest.raises(PgcError, match="cannot write"):
        pgc.train(world=Sled, out=tmp_path / "run")
    assert Run.open(tmp_path / "run").config.world.endswith(":Sled")


def test_a_run_that_another_process_has_just_begun_is_left_alone(tmp_path):
    """Until its first checkpoint a healthy run's folder holds a config and nothing else."""
    config = build(configure(world=Sled)).config
    running = RunInProgress.create(tmp_path / "run", config)
    with running.folder.locked(), pytest.raises(PgcError, match="is not empty"):
        pgc.train(world=Sled, epsilon=50.0, out=tmp_path / "run")
    assert Run.open(tmp_path / "run").config == config
