"""Users' own policies: any function of (θ, observation), or a module of Flax, Equinox or PyTorch,
over one flat vector θ.

`--policy MODULE:NAME` names a function of (observation_shape, outputs) that returns the result of
one of these:

    from_function(apply, theta)    apply(θ, observation) in JAX -> outputs, or (outputs, value)
    from_flax(module, shape)       a flax.linen or flax.nnx module, called with one observation
    from_equinox(module)           an Equinox module, called with one observation
    from_torch(module)             a torch.nn.Module, called with a batch; it plays on the host only

`outputs` are logits of discrete actions, or means of continuous ones in units of half their range.
The policy's own initial weights are θ_0. Observations are passed as the world returns them, unless
`normalize` is on: then they are scaled to [−1, 1] by their public bounds (a picture's bytes to
[0, 1]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pgc.errors import PgcError, in_one_line, require
from pgc.spaces import Actions, Bounds, in_box

Function = Callable[[Any, jax.Array], Any]


@dataclass(frozen=True, eq=False)
class Own:
    """A function of (θ, one observation), and θ_0."""

    function: Function
    start: np.ndarray


def from_function(apply: Function, theta: Any) -> Own:
    """Returns a policy from `apply(θ, observation)` in JAX, and θ_0.

    θ_0 is a vector, or any tree of arrays, which is flattened.
    """
    flat, unflatten = ravel_pytree(theta)
    return Own(
        lambda vector, observation: apply(unflatten(vector), observation),
        np.asarray(flat, np.float32),
    )


def from_flax(module: Any, observation_shape: Sequence[int], seed: int = 0) -> Own:
    """Returns a policy from a flax.linen module, initialised here, or from a flax.nnx module."""
    nnx = require("flax.nnx", "flax")
    if isinstance(module, nnx.Module):
        graph, weights, rest = nnx.split(module, nnx.Param, ...)

        def call(params: Any, observation: jax.Array) -> Any:
            return nnx.merge(graph, params, rest)(observation)

        return from_function(call, weights)
    weights = module.init(jax.random.key(seed), jnp.zeros(tuple(observation_shape)))
    return from_function(module.apply, weights)


def from_equinox(module: Any) -> Own:
    """Returns a policy from an Equinox module, whose floating-point arrays are θ."""
    equinox = require("equinox", "equinox")
    weights, rest = equinox.partition(module, equinox.is_inexact_array)
    return from_function(
        lambda params, observation: equinox.combine(params, rest)(observation), weights
    )


def from_torch(module: Any) -> Any:
    """Returns a policy from a torch.nn.Module, whose parameters are θ (`torch_module.py`)."""
    from pgc.local_training.policies.torch_module import OwnTorch  # PyTorch is optional

    return OwnTorch(module)


@dataclass(frozen=True, eq=False)
class OwnPolicy:
    """π and V of a function in JAX, with the interface of `Policy`: feature first, over any batch
    (see `ActorCritic`).
    """

    own: Own
    shape: tuple[int, ...]
    """The shape of an observation."""
    actions: Actions
    bounds: Bounds | None
    """The public box that is scaled to [−1, 1] for the policy; None leaves observations as is."""

    def __post_init__(self) -> None:
        """Raises an error if the function is no policy for this world; says what it returned."""
        try:
            made = jax.eval_shape(self._one, jnp.zeros(self.dim), jnp.zeros(self._flat))
        except PgcError:
            raise
        except Exception as error:
            raise PgcError(
                f"the policy cannot be called with an observation of shape {self.shape}: "
                f"{in_one_line(error)}"
            ) from None
        if made[0].shape != (self.actions.outputs,) or made[1].shape != ():
            raise PgcError(
                f"the policy returns outputs of shape {made[0].shape}; this world needs "
                f"({self.actions.outputs},)"
            )
        if not bool(
            jnp.isfinite(self._one(jnp.asarray(self.own.start), jnp.zeros(self._flat))[0]).all()
        ):
            raise PgcError("the policy's outputs are not finite at θ_0 and an observation of zeros")

    @property
    def dim(self) -> int:
        """d, the length of θ."""
        return len(self.own.start)

    @property
    def observation_dim(self) -> int:
        """How many numbers an observation has."""
        return self._flat[0]

    @property
    def _flat(self) -> tuple[int]:
        return (int(np.prod(self.shape)),)

    def _one(self, theta: jax.Array, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns outputs and value at one observation."""
        if self.bounds:
            observation = in_box(observation, self.bounds)
        elif self.bounds is not None:  # a picture: it has no bounds but those of a byte
            observation = observation / 255
        made = self.own.function(theta, observation.reshape(self.shape))
        outputs, value = made if isinstance(made, tuple) else (made, jnp.zeros(()))
        return outputs, jnp.reshape(value, ())

    def unflatten(self, theta: jax.Array) -> jax.Array:
        """Returns θ unchanged: the function takes a vector."""
        return theta

    def apply(self, params: jax.Array, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns outputs (outputs, *batch) and values (*batch) at observations (features,
        *batch).
        """
        outputs, values = self._each(_last(params), _last(observation))
        return _first(outputs), values

    def forward(
        self, params: jax.Array, observation: jax.Array
    ) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
        """Returns what `apply` returns, and what `backward` needs."""
        return *self.apply(params, observation), (observation,)

    def backward(
        self,
        params: jax.Array,
        inputs: tuple[jax.Array, ...],
        to_outputs: jax.Array,
        to_value: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Returns the gradient (d, *batch) of each step, given its derivatives with respect to the
        outputs and the value.
        """
        made = self._pull_each(_last(params), _last(inputs[0]), _last(to_outputs), to_value)
        return (_first(made),)

    def multiply_out(
        self, cotangents: Sequence[jax.Array], inputs: tuple[jax.Array, ...]
    ) -> jax.Array:
        """Returns the sum over time of what `backward` returned."""
        return jnp.sum(cotangents[0], axis=0)

    def init(self, key: jax.Array, how: str = "own") -> jax.Array:
        """Returns θ_0, the policy's own initial weights."""
        return jnp.asarray(self.own.start)

    def pull(
        self, theta: jax.Array, observation: jax.Array, to_outputs: jax.Array, to_value: jax.Array
    ) -> jax.Array:
        """Returns the gradient (d,) at one observation."""
        gradient: jax.Array = jax.vjp(lambda t: self._one(t, observation), theta)[1](
            (to_outputs, to_value)
        )[0]
        return gradient

    @cached_property
    def _each(self) -> Any:
        return jnp.vectorize(self._one, signature="(d),(n)->(k),()")

    @cached_property
    def _pull_each(self) -> Any:
        return jnp.vectorize(self.pull, signature="(d),(n),(k),()->(d)")


def _last(feature_first: jax.Array) -> jax.Array:
    return jnp.moveaxis(feature_first, 0, -1)


def _first(feature_last: jax.Array) -> jax.Array:
    return jnp.moveaxis(feature_last, -1, 0)
