"""The gradient of `loss.py`, accumulated while the episode is played: no episode is ever stored.

With targets and advantages held constant, the gradient of the loss is

    g = Σ_t (R_t − V_t)·φ_t − β Σ_t ∇H_t,      φ_t = −∇ log π(a_t|s_t) − 2λ ∇V_t,

and because R_t = Σ_{j≥t} γ^{j−t} r_j, the return part can be summed forward in time with an
eligibility trace:

    Σ_t R_t φ_t = Σ_j r_j e_j,      e_j = γ e_{j−1} + φ_j.

A bootstrap acts as a last reward of γ·V(s_T). Returns minus a fit, (R_t − β·f_t)/σ, need Σ f_t φ_t,
Σ f_t f_tᵀ, Σ R_t f_t and Σ R_t², which are running sums as well (f_t = 1 for returns that are only
centred). Memory is O(d), however long the episode is.

Steps are added a *chunk* of n at a time: `tape` notes each step's layer inputs and cotangents
(small), and `advance` forms all n outer products at once, so that the d-sized sums are updated once
per chunk and not once per step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgc.local_training.estimators.loss import fitted
from pgc.local_training.policies.actor_critic import Policy
from pgc.local_training.recipe import STD_FLOOR, LossOptions
from pgc.numerics.sums import sum_of_products


class Tape(NamedTuple):
    """What one step adds to the gradient, not yet multiplied out.

    A chunk has a leading time axis.
    """

    inputs: tuple[jax.Array, ...]  # inputs of each shared layer, and of the heads
    features: jax.Array | None  # f_t, where returns are fitted
    phi: tuple[jax.Array, ...]  # cotangents of each layer for φ_t
    rest: tuple[jax.Array, ...]  # cotangents of each layer for −V_t φ_t − β ∇H_t


class ReturnSums(NamedTuple):
    """Running sums that give the fit of R_t and its deviation without storing it."""

    gram: jax.Array  # Σ_t f_t f_tᵀ (k, k, *batch); the first feature is 1, so [0, 0] is T so far
    total: jax.Array  # Σ_t R_t f_t (k, *batch)
    squares: jax.Array  # Σ_t R_t²
    decay: jax.Array  # Σ_t γ^{j−t} f_t (k, *batch)
    decay2: jax.Array  # Σ_t γ^{2(j−t)}
    cross: jax.Array  # Σ_t γ^{j−t} R_t, rewards up to j


class Fitting(NamedTuple):
    """The additional sums that are needed where returns are fitted."""

    rest: jax.Array  # Σ_t (−V_t φ_t − β ∇H_t)
    plain: jax.Array  # Σ_t f_t φ_t (k, d, *batch)
    sums: ReturnSums


class Traces(NamedTuple):
    """What an agent remembers of the episode it is playing, (d, *batch)."""

    eligibility: jax.Array  # e
    weighted: jax.Array  # Σ_t R_t φ_t, plus the rest if returns are not fitted
    more: Fitting | None


class Gradients(NamedTuple):
    """Sums over finished episodes, from which the report's gradient is made."""

    weighted: jax.Array  # (d, *batch)
    more: Fitting | None


def start(dim: int, batch: tuple[int, ...], features: int) -> Traces:
    """Returns empty traces, for a fit to the returns with this many features (0 for no fit)."""
    zeros = jnp.zeros((dim, *batch))
    if not features:
        return Traces(zeros, zeros, None)
    return Traces(
        zeros, zeros, Fitting(zeros, jnp.zeros((features, dim, *batch)), no_sums(batch, features))
    )


def no_sums(batch: tuple[int, ...], features: int) -> ReturnSums:
    """Returns the sums before the first step: zeros."""
    one, each, pairs = (
        jnp.zeros((*shape, *batch)) for shape in ((), (features,), (features, features))
    )
    return ReturnSums(gram=pairs, total=each, squares=one, decay=each, decay2=one, cross=one)


def tape(
    policy: Policy,
    params: Any,
    inputs: tuple[jax.Array, ...],
    outputs: jax.Array,
    value: jax.Array,
    action: jax.Array,
    features: jax.Array | None,
    options: LossOptions,
) -> Tape:
    """Records one step, given the network's `forward` at s_t, the action taken, and f_t."""
    to_outputs, minus_entropy = policy.actions.cotangents(outputs, action)
    to_value = jnp.full_like(value, -2 * options.value_weight if options.critic else 0.0)
    value = value if options.critic else jnp.zeros_like(value)
    phi = policy.backward(params, inputs, to_outputs, to_value)
    rest = policy.backward(
        params,
        inputs,
        -value * to_outputs + options.entropy_weight * minus_entropy,
        -value * to_value,
    )
    return Tape(inputs, features, phi, rest)


def advance(
    policy: Policy,
    traces: Traces,
    chunk: Tape,
    rewards: jax.Array,
    lived: jax.Array,
    discount: float,
) -> Traces:
    """Returns the traces after a chunk of n steps.

    `rewards` are (n, *batch); `lived` says which steps happened, the first few of each lane.
    """
    n = rewards.shape[0]
    rewards = jnp.where(lived, rewards, 0.0)
    # R_t as far as the rewards of this chunk go; for t = −1, Σ_j γ^{j+1} r_j, which is what they
    # add to the return of the step before the chunk.
    # (n + 1, n): j − t for t = −1 … n − 1
    ahead = np.subtract.outer(np.arange(n), np.arange(-1, n)).T
    discounting = jnp.asarray(
        np.where(ahead >= 0, float(discount) ** np.maximum(ahead, 0), 0.0), rewards.dtype
    )
    returns = sum_of_products([discounting[:, j, None] for j in range(n)], list(rewards))
    count = jnp.sum(lived, axis=0)
    fading = jnp.where(lived, discount ** jnp.maximum(count - 1 - jnp.arange(n)[:, None], 0), 0.0)

    rest = [lived[:, None] * c for c in chunk.rest]

    def multiply_out(weight: jax.Array | None, add_rest: bool) -> jax.Array:
        """Returns Σ_t weight_t·φ_t (0 without a weight), plus Σ_t rest_t if `add_rest`."""
        cotangents = rest if weight is None else [weight[:, None] * c for c in chunk.phi]
        if weight is not None and add_rest:
            cotangents = [c + r for c, r in zip(cotangents, rest, strict=True)]
        return policy.multiply_out(cotangents, chunk.inputs)

    eligibility = discount**count * traces.eligibility + multiply_out(fading, False)
    weighted = traces.weighted + returns[0] * traces.eligibility
    if traces.more is None:
        return Traces(eligibility, weighted + multiply_out(returns[1:], True), None)
    assert chunk.features is not None
    f = lived[:, None] * chunk.features
    s = add_steps(traces.more.sums, chunk.features, rewards, lived, discount)
    plain = jnp.stack([multiply_out(f[:, i], False) for i in range(f.shape[1])])
    more = Fitting(traces.more.rest + multiply_out(None, True), traces.more.plain + plain, s)
    return Traces(eligibility, weighted + multiply_out(returns[1:], False), more)


def finish(
    traces: Traces, length: jax.Array, last_value: jax.Array, options: LossOptions
) -> Gradients:
    """Returns the sums of a whole episode, bootstrap included.

    `last_value` takes the place of V(s_T) (see `bootstrap_value`).
    """
    last_reward = options.discount * last_value
    weight = (
        1.0 / jnp.maximum(length, 1) if options.reduction == "mean" else jnp.ones_like(last_reward)
    )
    weighted = (traces.weighted + last_reward * traces.eligibility) * weight
    if traces.more is None:
        return Gradients(weighted, None)
    rest, plain, sums = traces.more
    return Gradients(
        weighted, Fitting(rest * weight, plain * weight, _add_reward(sums, last_reward))
    )


def combine(total: Gradients, episodes: int, options: LossOptions) -> jax.Array:
    """Returns g_n from the sums over a report's local episodes."""
    if total.more is None:
        return total.weighted / episodes
    rest, plain, s = total.more
    beta = fitted(options, s.gram, s.total)
    residual = total.weighted - sum_of_products(list(beta), list(plain))
    deviation = jnp.ones_like(s.squares)
    if options.standardize == "scale":
        explained = sum_of_products(
            list(beta), list(2 * s.total - sum_of_products(list(beta), list(s.gram)))
        )
        deviation = jnp.sqrt(jnp.maximum(s.squares - explained, 0.0) / jnp.maximum(s.gram[0, 0], 1))
    return (residual / jnp.maximum(deviation, STD_FLOOR) + rest) / episodes


def add_steps(
    s: ReturnSums, features: jax.Array, rewards: jax.Array, lived: jax.Array, discount: float
) -> ReturnSums:
    """Returns the sums after a chunk of n steps, with f_t (n, k, *batch) and rewards (n, *batch).

    `lived` says which steps happened.
    """
    f = lived[:, None] * features
    for i in range(rewards.shape[0]):
        shifted = s._replace(
            decay=discount * s.decay + f[i],
            decay2=discount**2 * s.decay2 + 1,
            cross=discount * s.cross,
        )
        added = _add_reward(shifted, rewards[i])
        s = ReturnSums(*(jnp.where(lived[i], new, old) for new, old in zip(added, s, strict=True)))
    return s._replace(gram=s.gram + sum_of_products([v[:, None] for v in f], [v[None] for v in f]))


def _add_reward(sums: ReturnSums, reward: jax.Array) -> ReturnSums:
    """Adds a reward at the current step j to R_t of every step so far, with weight γ^{j−t}."""
    return sums._replace(
        total=sums.total + reward * sums.decay,
        squares=sums.squares + 2 * reward * sums.cross + reward**2 * sums.decay2,
        cross=sums.cross + reward * sums.decay2,
    )
