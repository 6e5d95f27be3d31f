"""A public subspace of θ-space: agents report a gradient's few coordinates in it, not all d.

Noise grows with the dimension that is reported, and what matters about a gradient is how it moves
the policy as a *function*. A basis W ∈ R^{d×k} is a function of θ and public values alone, so it
travels in the offer and costs no ε:

    agent        z = Wᵀ g      the gradient with respect to the coefficients c of θ + W c
    aggregator   g̃ = W z̃       in θ-space again, with the basis of the report's own version

Any mechanism randomises z in place of g; ε-LDP holds for z and hence for g, whatever W is, even a
hostile one. The price is that what lies outside the subspace is never learnt.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from pgc.numerics.elimination import solve
from pgc.numerics.public_states import public_pictures, public_points, public_states
from pgc.spaces import Actions, Bounds

RIDGE = 1e-3


class Flat(Protocol):
    """A policy over one flat θ."""

    @property
    def dim(self) -> int:
        """d, the length of θ."""

    @property
    def actions(self) -> Actions:
        """The distribution over actions that its outputs stand for."""


class WithHead(Flat, Protocol):
    """A policy whose outputs are linear in a part of θ, its head."""

    @property
    def biases(self) -> bool:
        """Whether the head has biases, after its weights."""

    @property
    def head(self) -> slice:
        """Where in θ the head lies."""

    def unflatten(self, theta: jax.Array) -> Any:
        """Returns θ (d, *batch) in the form that `forward` takes."""

    def forward(
        self, params: Any, observation: jax.Array
    ) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
        """Returns the outputs, the values, and the inputs of the layers, those of the head last."""


class Differentiable(Flat, Protocol):
    """A policy whose outputs can be differentiated with respect to θ."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an observation."""

    def pull(
        self, theta: jax.Array, observation: jax.Array, to_outputs: jax.Array, to_value: jax.Array
    ) -> jax.Array:
        """Returns the gradient (d,) at one observation, given cotangents of outputs and value."""


@dataclass(frozen=True, kw_only=True)
class RandomSubspace:
    """A subspace of k random directions, drawn once from a public seed.

    It shows what a subspace is worth that knows nothing about the policy.
    """

    policy: Flat
    size: int

    @property
    def dim(self) -> int:
        """Dimension k of the subspace."""
        return self.size

    @property
    def output_change(self) -> None:
        """None: how far its directions change the policy's outputs is not known."""
        return None

    def basis(self, theta: jax.Array) -> jax.Array:
        """Returns k orthonormal columns (d, k), the same for every θ."""
        gaussian = np.random.default_rng(self.size).normal(size=(self.policy.dim, self.size))
        return jnp.asarray(np.linalg.qr(gaussian)[0], theta.dtype)


@dataclass(frozen=True, kw_only=True)
class FeatureSubspace:
    """The directions of the policy's head that add public features of the observation to the
    contrasts of its outputs (`Actions.contrasts`).

    A = (H Hᵀ/m + r·I)⁻¹ H Φᵀ/m is the ridge regression of each feature on H, where H are the head's
    inputs at m public states and Φ the features there. With `degree` 1 the features are the
    (scaled) observations themselves, and a constant if one is wanted; `degree` 2 adds their
    products. A head is linear, so θ + W c
    adds Φᵀc for a c of any size, as far as the regression fits. (The directions of all layers would
    do so for a small c only: docs/learning-under-noise.md.)
    """

    policy: WithHead
    bounds: Bounds
    """The public box in which observations usually lie."""
    degree: int = 1
    constant: bool = False
    """Whether a constant is one of the features, for policies that have biases."""

    @property
    def dim(self) -> int:
        """Dimension k of the subspace: the number of features times that of contrasts."""
        features = count(len(self.bounds), self.degree) + self.constant
        return features * int(self.policy.actions.contrasts.shape[0])

    @property
    def output_change(self) -> float:
        """How far a standard normal step in the k coefficients changes the policy's outputs.

        It is the mean square change of one contrast of the outputs over the public box.
        """
        return mean_square(len(self.bounds), self.degree) + self.constant

    def basis(self, theta: jax.Array) -> jax.Array:
        """Returns the basis W (d, k) at this θ."""
        policy, states = self.policy, jnp.asarray(public_states(self.bounds))
        inputs = policy.forward(policy.unflatten(theta[:, None]), states)[2][-1]
        if policy.biases:
            inputs = jnp.concatenate([inputs, jnp.ones_like(inputs[:1])])
        n, m = inputs.shape
        gram = inputs @ inputs.T / m
        ridge = jnp.maximum(RIDGE * jnp.trace(gram) / n, 1e-12)
        # A (inputs, features)
        fitted = solve(gram + ridge * jnp.eye(n), inputs @ jnp.asarray(self._features.T) / m)
        back = np.linalg.pinv(policy.actions.contrasts)  # (outputs, contrasts)
        head = jnp.einsum("pc,if->pifc", back, fitted).reshape(back.shape[0], n, self.dim)
        weights, biases = head[:, : n - policy.biases], head[:, n - policy.biases :]
        columns = jnp.concatenate([weights.reshape(-1, self.dim), biases.reshape(-1, self.dim)])
        return jnp.zeros((policy.dim, self.dim), theta.dtype).at[policy.head].set(columns)

    @cached_property
    def _features(self) -> np.ndarray:
        made = features(public_points(len(self.bounds)), self.degree)
        return np.concatenate([np.ones_like(made[:1]), made]) if self.constant else made


@dataclass(frozen=True, kw_only=True)
class TangentSubspace:
    """The directions of θ that add public features to the contrasts of the outputs, for any
    differentiable policy.

    W = Jᵀ (J Jᵀ + m·r·I)⁻¹ S is the ridge regression of each feature on J, where J are the
    derivatives of the contrasts with respect to θ at m public states and S the features there. This
    is its dual form, whose cost does not grow with d². A policy need not be linear in θ, so the
    features are added correctly for small steps only; W is made anew from each θ.
    """

    policy: Differentiable
    bounds: Bounds
    """The public box in which observations usually lie; empty for pictures, whose features are the
    brightness of a few places."""
    degree: int = 1

    @property
    def dim(self) -> int:
        """Dimension k of the subspace: the number of features times that of contrasts."""
        features = count(len(self.bounds), self.degree) if self.bounds else self._public[1].shape[0]
        return int(features * self.policy.actions.contrasts.shape[0])

    @property
    def output_change(self) -> float:
        """How far a standard normal step in the k coefficients changes the policy's outputs.

        It is the mean square change of one contrast of the outputs over the public box, or over
        public pictures.
        """
        places = len(self.bounds) or self._public[1].shape[0]
        return mean_square(places, self.degree if self.bounds else 1)

    def basis(self, theta: jax.Array) -> jax.Array:
        """Returns the basis W (d, k) at this θ."""
        states, features = (jnp.asarray(part) for part in self._public)
        contrasts = jnp.asarray(self.policy.actions.contrasts)  # (c, outputs)
        zero = jnp.zeros(())

        def derivatives(state: jax.Array) -> jax.Array:
            # (c, d)
            return jax.vmap(lambda row: self.policy.pull(theta, state, row, zero))(contrasts)

        j = jax.vmap(derivatives, 1)(states)  # (m, c, d)
        m, c, d = j.shape
        j = j.reshape(m * c, d)
        gram = j @ j.T
        ridge = jnp.maximum(RIDGE * jnp.trace(gram) / (m * c), 1e-12)
        wanted = jnp.einsum("fm,ce->mcfe", features, jnp.eye(c)).reshape(m * c, self.dim)
        return j.T @ solve(gram + ridge * jnp.eye(m * c), wanted)

    @cached_property
    def _public(self) -> tuple[np.ndarray, np.ndarray]:
        """The public states (n, m) and their features (f, m)."""
        if self.bounds:
            points = public_points(len(self.bounds))
            return public_states(self.bounds), features(points, self.degree)
        return public_pictures(self.policy.shape)


@dataclass(frozen=True, kw_only=True)
class LearntSubspace:
    """The few directions of θ in which good policies differ when ψ varies, found in a public
    simulator (`pgc pretrain`).

    They are the same for every θ. A step of length 1 in one of them is about as far as good
    policies lie from the start, so the simulator decides how far agents look in each. Noise then
    has k dimensions, whatever d is; what no mixture of the good policies resembles is never found.
    (Where outputs are capped, the cap also scales the policy's head, which changes no greedy
    action.)
    """

    policy: Flat
    directions: tuple[tuple[float, ...], ...]
    """The k directions, each of d numbers."""

    @property
    def dim(self) -> int:
        """Dimension k of the subspace."""
        return len(self.directions)

    @property
    def output_change(self) -> None:
        """None: lengths are those of good policies, not of the policy's outputs."""
        return None

    def basis(self, theta: jax.Array) -> jax.Array:
        """Returns the directions as columns (d, k), the same for every θ."""
        return jnp.asarray(self._columns, theta.dtype)

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.array(self.directions, np.float32).T


Subspace = RandomSubspace | FeatureSubspace | TangentSubspace | LearntSubspace


def count(n: int, degree: int) -> int:
    """Returns the number of features of an observation of n numbers."""
    return n if degree == 1 else n + n * (n + 1) // 2


def mean_square(n: int, degree: int) -> float:
    """Returns the sum of the mean squares of these features, for x uniform in [−1, 1]ⁿ."""
    if degree == 1:
        return n / 3
    return n / 3 + (n / 5 + n * (n - 1) / 2 / 9)


def features(x: np.ndarray, degree: int) -> np.ndarray:
    """Returns the coordinates x (n, m), and with degree 2 also their products."""
    if degree == 1:
        return x
    pairs = itertools.combinations_with_replacement(range(len(x)), 2)
    return np.concatenate([x, np.stack([x[i] * x[j] for i, j in pairs])])
