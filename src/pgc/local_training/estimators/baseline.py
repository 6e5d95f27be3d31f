"""A value function that an agent fits to its own episodes by least squares, and forgets after the
report. It costs no ε.

    V̂(s, t) = β·f(s, t),   f = (1, τ, τ², x_1, …, x_n, x_1², …, x_n²),   τ = t/T_max,
    x = s scaled to [−1, 1] by public bounds

Subtracting it from the returns leaves the effect of the actions, so that a few local episodes give
as good a gradient as many would without it (Duan et al. 2016 use such features in "Benchmarking
deep reinforcement learning for continuous control"). A critic in θ would have to be learnt through
the noise; this one is learnt in private.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pgc.local_training.recipe import BASELINE_RIDGE
from pgc.numerics.elimination import ridge_regression
from pgc.spaces import Bounds, in_box


def features(observation: jax.Array, step: jax.Array, bounds: Bounds, max_steps: int) -> jax.Array:
    """Returns f (features, *batch) of observations (n, *batch) at steps (*batch)."""
    x = in_box(observation, bounds)
    time = jnp.broadcast_to(step / max_steps, observation.shape[1:])
    return jnp.concatenate([jnp.stack([jnp.ones_like(time), time, time**2]), x, x**2])


def fit(gram: jax.Array, cross: jax.Array) -> jax.Array:
    """Returns β (k, *batch) from Σ f fᵀ (k, k, *batch) and Σ R f (k, *batch)."""
    k = gram.shape[0]
    mean = sum((gram[i, i] for i in range(1, k)), gram[0, 0]) / k
    return ridge_regression(gram, cross, jnp.maximum(BASELINE_RIDGE * mean, 1e-12))
