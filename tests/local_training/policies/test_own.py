"""Policies of one's own: the same numbers as the built-in network where they are the same function, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgc
from pgc.config import configure
from pgc.config.problem import build
from pgc.deliver.subspace import TangentSubspace, features
from pgc.engines.compiled_simulation import CompiledSimulation
from pgc.engines.jobs import host_policy
from pgc.errors import PgcError
from pgc.local_training.estimators.loss import Episode, gradient
from pgc.local_training.numpy_network import Network
from pgc.local_training.on_host import HostAgents
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.policies.on_host import JaxOnHost
from pgc.local_training.policies.own import OwnPolicy, from_function
from pgc.local_training.recipe import LossOptions, Recipe
from pgc.local_training.worlds.cartpole import CartPole
from pgc.numerics.public_states import public_points, public_states
from pgc.spaces import Categorical, Gaussian

NET = ActorCritic(observation_dim=4, actions=Categorical(2))
BOX = CartPole().observation_bounds


def as_function(bounds=None):
    """The paper's network as a function of (θ, observation)."""
    theta = np.asarray(NET.init(jax.random.key(1)))
    return OwnPolicy(
        from_function(lambda t, o: NET.apply(NET.unflatten(t), o), theta),
        (4,),
        Categorical(2),
        bounds,
    )


def episode(rng, steps=7):
    return Episode(
        jnp.asarray(rng.normal(size=(4, steps + 1)), jnp.float32), jnp.asarray(rng.integers(2, size=steps)),
        jnp.ones(steps), jnp.asarray(steps), jnp.asarray(False),
    )  # fmt: skip


def test_a_function_is_differentiated_like_the_network_that_it_is(rng):
    own, theta = as_function(), NET.init(jax.random.key(2))
    episodes = [episode(rng), episode(rng)]
    options = LossOptions(baseline="critic", standardize="scale", bootstrap="timeout")
    one, other = (
        jax.jit(gradient, static_argnums=(2, 3, 4))(theta, episodes, p, options, CartPole())
        for p in (NET, own)
    )
    np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.more
@pytest.mark.parametrize("estimator", ["policy-gradient", "evolution"])
def test_while_playing_as_well(estimator):
    """The compiled engine, with the policy gradient accumulated while playing, and with evolution."""
    alike = dict(
        local_episodes=2,
        submissions=6,
        workers=2,
        buffer_size=2,
        normalize=False,
        epsilon=np.inf,
        trials=1,
    )
    alike |= dict(output_cap=np.inf, initial="glorot")
    alike |= (
        dict(subspace="full", baseline="critic")
        if estimator == "policy-gradient"
        else dict(subspace="random")
    )
    thetas = []
    for policy in ({}, {"policy": "tests.local_training.policies.test_own:start_alike"}):
        simulation = CompiledSimulation(build(configure(estimator=estimator, **alike, **policy)))
        while simulation.running:
            list(simulation.advance())
        thetas.append(simulation.aggregator_field("theta")[0])
    np.testing.assert_allclose(*thetas, rtol=1e-3, atol=1e-4)


def start_alike(observation_shape, outputs):
    from pgc.deliver.initial import Initial, initial_theta
    from pgc.numerics.randomness import trial_seed

    theta = np.asarray(initial_theta(trial_seed(0, 0), NET, Initial("glorot")))
    return from_function(lambda t, o: NET.apply(NET.unflatten(t), o), theta)


def test_on_the_host_a_function_is_what_the_network_in_numpy_is(rng):
    made = build(configure(world="cartpole"))
    network, own = Network(Recipe.of(made.training)), JaxOnHost(as_function(BOX))
    theta, observations = np.asarray(NET.init(jax.random.key(3)), float), rng.normal(size=(150, 4))
    one, other = network.forward(theta, observations), own.forward(theta, observations)
    np.testing.assert_allclose(one.outputs, other.outputs, rtol=1e-4, atol=1e-5)
    to_outputs, to_values = rng.normal(size=(150, 2)), rng.normal(size=150)
    pulled = network.backward(theta, one, to_outputs, to_values)
    np.testing.assert_allclose(
        pulled, own.backward(theta, other, to_outputs, to_values), rtol=1e-3, atol=1e-3
    )
    several = [theta + i for i in range(5)]
    rows = own.each(own.stack(several), observations[:5])
    np.testing.assert_allclose(
        rows, network.each(network.stack(several), observations[:5]), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_array_equal(
        rows[2:3], own.each(own.keep(own.stack(several), np.array([2])), observations[2:3])
    )


def test_a_tangent_subspace_adds_features_of_the_observation():
    """Exactly, where a policy is linear in θ; nearly, and for small steps, where it is not."""
    linear = OwnPolicy(
        from_function(lambda t, o: t @ o, jnp.zeros((3, 4))), (4,), Categorical(3), BOX
    )
    for policy, close in ((linear, 2e-3), (as_function(BOX), 0.3)):
        space = TangentSubspace(policy=policy, bounds=BOX)
        theta = policy.init(jax.random.key(0))
        w, states, k = jax.jit(space.basis)(theta), jnp.asarray(public_states(BOX)), space.dim
        assert w.shape == (policy.dim, 4 * (policy.actions.count - 1)) == (policy.dim, k)
        contrasts, outputs = (
            policy.actions.contrasts,
            jax.jit(lambda t, p=policy, s=states: p.apply(t, s)[0]),
        )
        before, after = (contrasts @ outputs(t[:, None]) for t in (theta, theta + 1e-3 * w[:, 0]))
        added = np.asarray(after - before)[0] / 1e-3
        wanted = features(public_points(4), 1)[0]
        assert np.sqrt(np.mean((added - wanted) ** 2)) < close * np.sqrt(np.mean(wanted**2)) + 1e-6


@pytest.mark.parametrize(
    ("apply", "theta", "says"),
    [
        (lambda t, o: t[:3], np.zeros(3), r"outputs of shape \(3,\); this world needs \(2,\)"),
        (lambda t, o: 1 / 0, np.zeros(3), "ZeroDivisionError"),
        (
            lambda t, o: t.reshape(2, 5) @ o,
            np.zeros(10),
            "cannot be called with an observation of shape",
        ),
    ],
)
def test_what_is_no_policy_is_refused(apply, theta, says):
    with pytest.raises(PgcError, match=says) as refused:
        OwnPolicy(from_function(apply, theta), (4,), Categorical(2), None)
    assert "\n" not in str(refused.value)


def no_policy(observation_shape, outputs):
    return 3


def raises(observation_shape, outputs):
    raise KeyError("weights")


def test_names_of_policies():
    for name, says in (
        ("deep", "unknown policy 'deep'"),
        ("nosuch:policy", "cannot load policy"),
        ("tests.local_training.policies.test_own:no_policy", "is not a policy"),
        ("tests.local_training.policies.test_own:raises", "raised KeyError"),
        ("convolutional", "is for pictures"),
    ):
        with pytest.raises(PgcError, match=says):
            build(configure(policy=name))
    with pytest.raises(PgcError, match="output_cap scales the head"):
        build(
            configure(policy="tests.local_training.policies.test_own:start_alike", output_cap=2.0)
        )


@pytest.mark.more
def test_a_plain_function_learns_under_privacy(tmp_path):
    """The example, at ε = 1: the default's rules, in a subspace of its tangents."""
    run = pgc.train(
        out=tmp_path / "run",
        policy="examples.own_policies:function",
        submissions=300,
        trials=4,
        eval_episodes=20,
    )
    assert run.config.subspace == "linear" and run.config.estimator == "evolution"
    assert run.summary["averaged_score_mean"] > 150


@pytest.mark.extra
@pytest.mark.parametrize("name", ["flax_module", "equinox_module"])
def test_modules_in_jax_learn_under_privacy(tmp_path, name):
    run = pgc.train(
        out=tmp_path / "run",
        policy=f"examples.own_policies:{name}",
        submissions=600,
        trials=4,
        eval_episodes=20,
    )
    assert run.summary["averaged_score_mean"] > 150


@pytest.mark.extra
def test_flax_nnx_as_well():
    from flax import nnx

    from pgc.local_training.policies.own import from_flax

    policy = OwnPolicy(
        from_flax(nnx.Linear(4, 2, rngs=nnx.Rngs(0)), (4,)), (4,), Categorical(2), BOX
    )
    assert policy.dim == 10
    outputs, _ = policy.apply(policy.init(jax.random.key(0))[:, None], jnp.ones((4, 3)))
    assert outputs.shape == (2, 3)


@pytest.mark.extra
def test_a_torch_module_plays_on_the_host(tmp_path, rng):
    import torch

    from pgc.local_training.policies.own import from_torch
    from pgc.local_training.policies.torch_module import TorchPolicy

    world = dict(
        world="gymnasium:CartPole-v1",
        max_steps=100,
        policy="examples.own_policies:torch_module",
        epsilon=2.0,
    )
    with pytest.raises(PgcError, match="plays on the host"):
        build(configure(policy="examples.own_policies:torch_module", epsilon=2.0))
    made = build(configure(**world))
    policy = host_policy(made)
    assert isinstance(policy, TorchPolicy) and made.config.subspace == "full"
    theta, observations = policy.own.start.astype(float), rng.normal(size=(9, 4))
    to_outputs = rng.normal(size=(9, 2))
    g = policy.backward(theta, policy.forward(theta, observations), to_outputs, np.zeros(9))
    # along g and somewhat off it, so that neither kinks nor float32 matter
    aside = rng.normal(size=len(theta))
    step = 1e-2 * (g / np.linalg.norm(g) + 0.5 * aside / np.linalg.norm(aside))
    ends = [
        np.sum(policy.forward(theta + sign * step, observations).outputs * to_outputs)
        for sign in (1, -1)
    ]
    np.testing.assert_allclose(ends[0] - ends[1], 2 * step @ g, rtol=2e-2)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 37), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(37, 2)
    )
    odd = TorchPolicy(from_torch(net), (4,), Categorical(2), None)
    thetas, seen = (
        [odd.own.start.astype(float) + i // 8 for i in range(40)],
        rng.normal(size=(40, 4)),
    )
    rows, order = odd.each(thetas, seen), rng.permutation(40)
    np.testing.assert_array_equal(odd.each([thetas[i] for i in order], seen[order]), rows[order])
    np.testing.assert_array_equal(odd.each(thetas[:3], seen[:3]), rows[:3])
    them = HostAgents(made.training, 0, policy)
    orders = [
        them.greedy_order(theta if i % 2 else theta + 0.1, them.world.default_psi, i)
        for i in range(6)
    ]
    together = them.play(orders)
    for i, alone in enumerate(orders):
        np.testing.assert_array_equal(them.play([alone])[0].observations, together[i].observations)
    run = pgc.train(out=tmp_path / "run", submissions=30, eval_episodes=3, **world)
    assert run.policies()["theta"].shape == (1, policy.dim)
    with pytest.raises(PgcError, match="outputs of shape"):
        TorchPolicy(from_torch(torch.nn.Linear(4, 3)), (4,), Categorical(2), None)
    with pytest.raises(PgcError, match="cannot be called"):
        TorchPolicy(
            from_torch(torch.nn.Linear(5, 2)), (4,), Gaussian((-1.0,) * 2, (1.0,) * 2), None
        )
