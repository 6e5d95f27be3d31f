import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.spaces import Categorical
from tests.conftest import PAPER_NET


def test_the_papers_network_has_112_parameters():
    assert PAPER_NET.shapes == [(16, 4), (2, 16), (1, 16)]
    assert PAPER_NET.dim == 112


@pytest.mark.parametrize("hidden", [(), (3,), (5, 4), (70, 2)])
@pytest.mark.parametrize("biases", [False, True])
def test_any_hidden_sizes_share_one_flat_theta(hidden, biases, rng):
    net = ActorCritic(observation_dim=3, actions=Categorical(4), hidden=hidden, biases=biases)
    theta = jnp.asarray(rng.normal(size=net.dim), jnp.float32)
    pieces = [leaf.ravel() for leaf in jax.tree.leaves(net.unflatten(theta))]
    assert np.array_equal(np.concatenate(pieces), theta)
    logits, value = net.apply(net.unflatten(theta), jnp.ones(3))
    assert logits.shape == (4,) and value.shape == ()


def test_it_computes_what_the_paper_says(rng):
    theta, s = rng.normal(size=112), rng.normal(size=4)
    c, p, v = theta[:64].reshape(16, 4), theta[64:96].reshape(2, 16), theta[96:].reshape(1, 16)
    hidden = np.maximum(c @ s, 0)
    logits, value = PAPER_NET.apply(PAPER_NET.unflatten(jnp.asarray(theta)), jnp.asarray(s))
    np.testing.assert_allclose(logits, p @ hidden, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value, (v @ hidden)[0], rtol=1e-4, atol=1e-5)


def test_a_batch_of_networks_is_the_networks_one_by_one(rng):
    net = ActorCritic(observation_dim=4, actions=Categorical(2), hidden=(8, 5), biases=True)
    thetas = jnp.asarray(rng.normal(size=(net.dim, 6)), jnp.float32)
    s = jnp.asarray(rng.normal(size=(4, 6)), jnp.float32)
    logits, values = net.apply(net.unflatten(thetas), s)
    for i in range(6):
        one_logits, one_value = net.apply(net.unflatten(thetas[:, i]), s[:, i])
        np.testing.assert_allclose(logits[:, i], one_logits, rtol=1e-5)
        np.testing.assert_allclose(values[i], one_value, rtol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "biases", "activation"),
    [
        ((6, 5), True, "relu"),
        ((6, 5), True, "tanh"),
        pytest.param((16,), False, "relu", marks=pytest.mark.more),
        pytest.param((), True, "relu", marks=pytest.mark.more),
    ],
)
def test_backward_is_the_derivative(hidden, biases, activation, x64, rng):
    """Outer products of `backward`'s cotangents and `forward`'s inputs are what automatic differentiation gives."""
    net = ActorCritic(
        observation_dim=4,
        actions=Categorical(3),
        hidden=hidden,
        biases=biases,
        activation=activation,
    )
    theta, s = jnp.asarray(rng.normal(size=net.dim)), jnp.asarray(rng.normal(size=4))
    to_logits, to_value = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal())
    _, _, inputs = net.forward(net.unflatten(theta), s)
    cotangents = net.backward(net.unflatten(theta), inputs, to_logits, to_value)
    ours = []
    for layer, c in enumerate(cotangents):
        ours.append(np.outer(c, inputs[min(layer, len(inputs) - 1)]).ravel())
        ours.extend([np.asarray(c)] if biases else [])

    def objective(t):
        logits, value = net.apply(net.unflatten(t), s)
        return logits @ to_logits + value * to_value

    np.testing.assert_allclose(
        np.concatenate(ours), jax.grad(objective)(theta), rtol=1e-10, atol=1e-12
    )


def test_initial_weights():
    theta = np.concatenate([PAPER_NET.init(jax.random.key(i)) for i in range(200)]).reshape(
        200, 112
    )
    for part, limit in (
        (theta[:, :64], (6 / 20) ** 0.5),
        (theta[:, 64:96], (6 / 18) ** 0.5),
        (theta[:, 96:], (6 / 17) ** 0.5),
    ):
        assert np.abs(part).max() <= limit and np.abs(part).max() > 0.99 * limit
        assert abs(part.std() / (limit / 3**0.5) - 1) < 0.03
    assert abs(np.std(PAPER_NET.init(jax.random.key(0), "normal")) - 0.1) < 0.02
    assert not PAPER_NET.init(jax.random.key(0), "zeros").any()
