"""π(·|s; θ) and V(s; θ): an actor-critic network over one flat vector θ.

Arrays are *feature first*: every function here works on θ of shape (d, *batch) and observations of
shape (features, *batch), so one network serves a single agent (batch = ()) and thousands of trials
side by side, whose contiguous trailing axis is what a CPU's vector unit and a GPU want.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from pgc.local_training.recipe import Recipe
from pgc.numerics.sums import sum_of_products
from pgc.spaces import Actions, in_box

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
FLAT = 0.3
"""The factor by which a `flat` initialisation scales the policy head."""


class Layer(NamedTuple):
    """One affine map; `bias` is None in the paper's network."""

    weight: jax.Array  # (outputs, inputs, *batch)
    bias: jax.Array | None  # (outputs, *batch)


class Params(NamedTuple):
    """θ = (θ^(c), θ^(p), θ^(v)), unflattened."""

    shared: tuple[Layer, ...]
    policy: Layer
    value: Layer


@dataclass(frozen=True, kw_only=True)
class ActorCritic:
    """Shared layers (ReLU, or tanh), then a linear policy head (logits) and a linear value head.

    The paper's network is `hidden=(16,), biases=False` on CartPole: θ^(c) ∈ R^{16×4}, θ^(p) ∈
    R^{2×16}, θ^(v) ∈ R^{1×16}, d = 112.
    """

    observation_dim: int
    actions: Actions
    hidden: tuple[int, ...] = (16,)
    activation: Literal["relu", "tanh"] = "relu"
    biases: bool = False
    bounds: tuple[tuple[float, float], ...] | None = None
    """The public box that is scaled to [−1, 1] for the network; None leaves observations as is."""

    @classmethod
    def of(cls, recipe: Recipe, actions: Actions) -> ActorCritic:
        """Returns the network that a recipe describes."""
        return cls(
            observation_dim=len(recipe.bounds),
            actions=actions,
            hidden=recipe.hidden,
            activation=recipe.activation,
            biases=recipe.biases,
            bounds=recipe.bounds if recipe.normalize else None,
        )

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(outputs, inputs) of each layer, in the order in which θ holds them."""
        widths = (self.observation_dim, *self.hidden)
        shared = [(out, into) for into, out in itertools.pairwise(widths)]
        return [*shared, (self.actions.outputs, widths[-1]), (1, widths[-1])]

    @property
    def dim(self) -> int:
        """d, the length of θ."""
        return sum(out * (into + self.biases) for out, into in self.shapes)

    def unflatten(self, theta: jax.Array) -> Params:
        """Returns views of θ (d, *batch) as layers."""
        batch, at, layers = theta.shape[1:], 0, []
        for out, into in self.shapes:
            weight = theta[at : at + out * into].reshape(out, into, *batch)
            at += out * into
            bias = theta[at : at + out] if self.biases else None
            at += out * self.biases
            layers.append(Layer(weight, bias))
        return Params(tuple(layers[:-2]), layers[-2], layers[-1])

    def apply(self, params: Params, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns outputs (logits or means, *batch) and values (*batch) at observations (features,
        *batch).
        """
        outputs, value, _ = self.forward(params, observation)
        return outputs, value

    def forward(
        self, params: Params, observation: jax.Array
    ) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
        """Returns what `apply` returns, and the inputs of each shared layer and of the heads, which
        `backward` needs.
        """
        inputs = [self._seen(observation)]
        for layer in params.shared:
            inputs.append(ACTIVATIONS[self.activation](_affine(layer, inputs[-1])))
        return (
            _affine(params.policy, inputs[-1]),
            _affine(params.value, inputs[-1])[0],
            tuple(inputs),
        )

    def backward(
        self,
        params: Params,
        inputs: tuple[jax.Array, ...],
        to_outputs: jax.Array,
        to_value: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Returns the cotangent of each layer's output, in the order of `shapes`, given those of
        the policy's outputs and the value.

        A layer's gradient is the outer product of its cotangent and its input (and the cotangent
        itself for the bias).
        """
        cotangents = [to_value[None], to_outputs]
        back = (
            sum_of_products(list(params.policy.weight), list(to_outputs))
            + to_value * params.value.weight[0]
        )
        for layer, output in zip(reversed(params.shared), reversed(inputs), strict=False):
            cotangents.append(
                jnp.where(output > 0, back, 0.0)
                if self.activation == "relu"
                else back * (1 - output * output)
            )
            back = sum_of_products(list(layer.weight), list(cotangents[-1]))
        return tuple(reversed(cotangents))

    def multiply_out(
        self, cotangents: Sequence[jax.Array], inputs: tuple[jax.Array, ...]
    ) -> jax.Array:
        """Returns Σ_t cotangent_t ⊗ input_t of every layer, as one vector in the order of θ.

        Cotangents and inputs have a leading time axis.
        """
        pieces = []
        for layer, cotangent in enumerate(cotangents):
            x = inputs[min(layer, len(inputs) - 1)]  # both heads read the last input
            outer = sum_of_products([c[:, None] for c in cotangent], [v[None] for v in x])
            pieces.append(outer.reshape(-1, *outer.shape[2:]))
            if self.biases:
                pieces.append(sum(cotangent[1:], cotangent[0]))
        return jnp.concatenate(pieces)

    def _seen(self, observation: jax.Array) -> jax.Array:
        if self.bounds is None:
            return observation
        return in_box(observation, self.bounds)

    @property
    def head(self) -> slice:
        """Where θ holds θ^(p): its weights (outputs, inputs), and then its biases."""
        inputs = self.shapes[-1][1] + self.biases
        return slice(self.dim - (self.actions.outputs + 1) * inputs, self.dim - inputs)

    def scale_outputs(self, theta: jax.Array, factor: jax.Array) -> jax.Array:
        """Returns a θ (d,) whose policy outputs are multiplied by a factor.

        Scaling the head is enough, because it is linear.
        """
        return theta.at[self.head].multiply(factor)

    def init(self, key: jax.Array, how: str = "glorot") -> jax.Array:
        """Returns θ_0: `glorot` (uniform ±√(6/(inputs + outputs)), biases zero), `normal`
        (N(0, 0.1²)), `zeros`, or `flat`.

        `flat` is `glorot` with a smaller policy head (× 0.3), so that less has to be unlearnt
        through the noise.
        """
        if how == "normal":
            return 0.1 * jax.random.normal(key, (self.dim,))
        if how == "zeros":
            return jnp.zeros((self.dim,))
        pieces = []
        for (out, into), k in zip(
            self.shapes, jax.random.split(key, len(self.shapes)), strict=True
        ):
            limit = math.sqrt(6 / (into + out))
            pieces.append(jax.random.uniform(k, (out * into,), minval=-limit, maxval=limit))
            if self.biases:
                pieces.append(jnp.zeros((out,)))
        theta = jnp.concatenate(pieces)
        return self.scale_outputs(theta, jnp.asarray(FLAT)) if how == "flat" else theta


class Policy(Protocol):
    """A policy that plays in compiled programs: `ActorCritic`, or a user's own (`own.py`)."""

    @property
    def dim(self) -> int:
        """d, the length of θ."""

    @property
    def actions(self) -> Actions:
        """The distribution over actions that the outputs describe."""

    def unflatten(self, theta: jax.Array) -> Any:
        """Returns θ (d, *batch) in the form that `apply` takes."""

    def apply(self, params: Any, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns outputs (outputs, *batch) and values (*batch) at observations (features,
        *batch).
        """

    def forward(
        self, params: Any, observation: jax.Array
    ) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
        """Returns what `apply` returns, and what `backward` needs."""

    def backward(
        self, params: Any, inputs: tuple[jax.Array, ...], to_outputs: jax.Array, to_value: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Returns what each step adds to the gradient, not yet multiplied out, given the cotangents
        of outputs and value.
        """

    def multiply_out(
        self, cotangents: Sequence[jax.Array], inputs: tuple[jax.Array, ...]
    ) -> jax.Array:
        """Returns the gradient (d, *batch) of steps; both arguments have a leading time axis."""

    def init(self, key: jax.Array, how: str = ...) -> jax.Array:
        """Draws θ_0 in the way that `how` names."""


def _affine(layer: Layer, x: jax.Array) -> jax.Array:
    """Returns W x + b, feature first."""
    out = sum_of_products([layer.weight[:, i] for i in range(x.shape[0])], list(x))
    return out if layer.bias is None else out + layer.bias
