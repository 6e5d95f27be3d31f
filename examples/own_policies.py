"""Policies of your own, one in each way: a plain function, Flax, Equinox, PyTorch.

    pgc train --policy examples.own_policies:function --submissions 1000
    pgc train --policy examples.own_policies:flax_module --submissions 1000
    pgc train --policy examples.own_policies:equinox_module --submissions 1000
    pgc train --policy examples.own_policies:torch_module --world gymnasium:CartPole-v1 --epsilon 2 --submissions 1000

Each is a function of the shape of an observation and the number of outputs (logits, or means of continuous actions) that returns
what `pgc.policies.own` makes of it: one flat θ and a function of it. The first three play compiled, in any world; PyTorch's
plays on the host, in Gymnasium's environments.
"""

import jax
import jax.numpy as jnp
import numpy as np
from pgc.policies.own import from_equinox, from_flax, from_function, from_torch


def function(observation_shape, outputs):
    """Any function of (θ, observation). Here θ is a tree of two arrays, and a policy is a wave and a line."""
    n = int(np.prod(observation_shape))
    rng = np.random.default_rng(0)
    theta = {
        "line": jnp.asarray(0.1 * rng.standard_normal((outputs, n)), jnp.float32),
        "wave": jnp.asarray(0.1 * rng.standard_normal((outputs, n)), jnp.float32),
    }

    def apply(theta, observation):
        return theta["line"] @ observation + theta["wave"] @ jnp.sin(3 * observation)

    return from_function(apply, theta)


def flax_module(observation_shape, outputs):
    """A flax.linen module."""
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, observation):
            x = nn.tanh(nn.Dense(16)(observation))
            return nn.Dense(outputs)(x), nn.Dense(1)(x)[
                0
            ]  # outputs, and a value for --baseline critic

    return from_flax(Network(), observation_shape)


def equinox_module(observation_shape, outputs):
    """An Equinox module."""
    import equinox as eqx

    n = int(np.prod(observation_shape))
    return from_equinox(
        eqx.nn.MLP(n, outputs, width_size=16, depth=1, activation=jnp.tanh, key=jax.random.key(0))
    )


def torch_module(observation_shape, outputs):
    """A torch.nn.Module."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    n = int(np.prod(observation_shape))
    return from_torch(
        nn.Sequential(nn.Flatten(), nn.Linear(n, 16), nn.Tanh(), nn.Linear(16, outputs))
    )
