"""A public subspace of θ-space: agents report a gradient's few coordinates in it, not all d.

Noise grows with the dimension that is reported, and what matters of a gradient is how it moves the policy as a *function*.
A basis W ∈ R^{d×k} is a function of θ and public values alone, so it travels in the offer and costs no ε:

    agent        z = Wᵀ g                   the gradient with respect to the coefficients c of θ + W c
    aggregator   g̃ = W z̃                    in θ-space again, with the basis of the version that the report was made from

Any mechanism randomises z in place of g; ε-LDP holds for z and hence for g, whatever W is, a hostile one included. What lies
outside the subspace is never learnt: that is the price.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from pgc.policies.actor_critic import ActorCritic
from pgc.policies.public_states import Bounds, public_points, public_states

RIDGE = 0.1


@dataclass(frozen=True, kw_only=True)
class RandomSubspace:
    """Some k directions drawn once, from a public seed: what a subspace is worth that knows nothing of the policy."""

    policy: ActorCritic
    size: int

    @property
    def dim(self) -> int:
        """Its dimension k."""
        return self.size

    def basis(self, theta: jax.Array) -> jax.Array:
        """Orthonormal columns (d, k), the same for every θ."""
        gaussian = np.random.default_rng(self.size).normal(size=(self.policy.dim, self.size))
        return jnp.asarray(np.linalg.qr(gaussian)[0], theta.dtype)


@dataclass(frozen=True, kw_only=True)
class FeatureSubspace:
    """The directions of θ that add public features of the observation to the policy's outputs.

    W = Jᵀ (J Jᵀ/m + r·I)⁻¹ Φ/m, with J = ∂(what matters of the outputs)/∂θ at m public states, Φ the features there: the ridge
    regression of each feature on J. `degree` 1 are the (scaled) observations themselves, 2 adds their products.
    """

    policy: ActorCritic
    bounds: Bounds
    """The public box in which observations usually lie."""
    degree: int = 1
    weight: float = 1.0
    """Of a product of two coordinates, beside 1 of a coordinate: how fast it is learnt, and how much noise it adds."""

    @property
    def dim(self) -> int:
        """Its dimension k: features × what matters of the outputs."""
        return int(self._features.shape[0] * self.policy.actions.contrasts.shape[0])

    def basis(self, theta: jax.Array) -> jax.Array:
        """W (d, k)."""
        contrasts = jnp.asarray(self.policy.actions.contrasts)

        def outputs(theta: jax.Array, state: jax.Array) -> jax.Array:
            return contrasts @ self.policy.apply(self.policy.unflatten(theta), state)[0]

        states = jnp.asarray(public_states(self.bounds))
        m, o = states.shape[1], contrasts.shape[0]
        jacobian = jax.vmap(jax.jacrev(outputs), (None, 1))(theta, states).reshape(m * o, -1)  # J
        targets = jnp.asarray(np.kron(self._features.T, np.eye(o, dtype=np.float32)))  # Φ
        gram = jacobian @ jacobian.T / m
        ridge = RIDGE * jnp.trace(gram) / theta.shape[0]
        fitted = solve(gram + ridge * jnp.eye(m * o), targets / m)
        basis: jax.Array = jacobian.T @ fitted
        return basis

    @cached_property
    def _features(self) -> np.ndarray:
        return features(public_points(len(self.bounds)), self.degree, self.weight)


Subspace = RandomSubspace | FeatureSubspace


def solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """The solution of a positive definite system, by Gauss and Jordan's elimination.

    Written out, because LAPACK's routines, called from two compiled programs at once, can wait for each other for ever (JAX 0.9
    to 0.11 on two cores), and because the same operations give the same basis on every machine.
    """
    n = matrix.shape[0]

    def eliminate(i: jax.Array, rows: jax.Array) -> jax.Array:
        pivot = rows[i] / rows[i, i]
        return jnp.where((jnp.arange(n) == i)[:, None], pivot, rows - rows[:, i][:, None] * pivot)

    rows: jax.Array = jax.lax.fori_loop(0, n, eliminate, jnp.concatenate([matrix, right], axis=1))
    return rows[:, n:]


def features(x: np.ndarray, degree: int, weight: float) -> np.ndarray:
    """Coordinates (n, m), and from degree 2 on the products of two of them."""
    if degree == 1:
        return x
    pairs = itertools.combinations_with_replacement(range(len(x)), 2)
    return np.concatenate([x, weight * np.stack([x[i] * x[j] for i, j in pairs])])


def project(basis: jax.Array | None, gradient: jax.Array) -> jax.Array:
    """The coordinates that are reported: Wᵀ g, or g itself where there is no subspace."""
    return gradient if basis is None else basis.T @ gradient


def lift(basis: jax.Array | None, coordinates: jax.Array) -> jax.Array:
    """Back to θ-space: W z̃."""
    return coordinates if basis is None else basis @ coordinates
