"""Step 2 in NumPy, second half: computes, from the episodes, the numbers that will be randomised.

The definitions are those of `estimators/` (loss.py, baseline.py, evolution.py); a test checks that
both give the same numbers. Episodes are added one by one, so that memory holds the forward pass of
one episode at a time.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pgc.local_training.numpy_episodes import History
from pgc.local_training.numpy_network import Network, Passed, cotangents, scaled
from pgc.local_training.recipe import BASELINE_RIDGE, STD_FLOOR, Recipe

GRID = 4
"""The number of cells across, and down, to which a picture is reduced for the baseline."""


def tried(rng: np.random.Generator, dim: int, episodes: int) -> np.ndarray:
    """Draws ξ (dim, e): standard normal, and in every second episode the negative of the last."""
    half = rng.standard_normal((dim, -(-episodes // 2)))
    return np.stack([half, -half], axis=-1).reshape(dim, 2 * half.shape[1])[:, :episodes]


def nearby(
    recipe: Recipe, theta: np.ndarray, basis: np.ndarray | None, xi: np.ndarray
) -> np.ndarray:
    """Returns θ + σ·W ξ, which is tried for one episode; θ itself where nothing is tried."""
    return theta + recipe.spread * to_theta_space(basis, xi) if recipe.evolves else theta


def coordinates(
    recipe: Recipe,
    theta: np.ndarray,
    basis: np.ndarray | None,
    episodes: list[History],
    xi: np.ndarray,
    network: GradientPolicy | None = None,
) -> np.ndarray:
    """Returns z, the coordinates to report, computed from these episodes."""
    if recipe.evolves:
        return evolution(recipe, episodes, xi)
    g = gradient(recipe, theta, episodes, network)
    return g if basis is None else basis.T @ g


def to_theta_space(basis: np.ndarray | None, vector: np.ndarray) -> np.ndarray:
    """Returns W c for coordinates c; c itself if there is no subspace."""
    return vector if basis is None else basis @ vector


def evolution(recipe: Recipe, episodes: list[History], xi: np.ndarray) -> np.ndarray:
    """Returns z = −(Σ ξ ξᵀ + k·I)⁻¹ Σ A ξ / σ (`estimators/evolution.py`)."""
    targets = [returns(recipe, e, 0.0) for e in episodes]
    features = [fit_features(recipe, e.observations[:-1]) for e in episodes]
    beta = fit(recipe, np.concatenate(features), np.concatenate(targets))
    advantage = np.array([r[0] - f[0] @ beta for r, f in zip(targets, features, strict=True)])
    # (ξ ξᵀ + k·I)⁻¹ ξ = ξ (ξᵀ ξ + k·I)⁻¹: the last matrix has one row per episode
    gram = xi.T @ xi + len(xi) * np.eye(len(episodes))
    made: np.ndarray = -xi @ np.linalg.solve(gram, advantage - advantage.mean()) / recipe.spread
    return made


class GradientPolicy(Protocol):
    """A policy over one flat θ that can be differentiated: `Network`, or a user's own policy."""

    def forward(self, theta: np.ndarray, observations: np.ndarray) -> Passed:
        """Returns outputs and values at observations, one row for each."""

    def backward(
        self, theta: np.ndarray, passed: Passed, to_outputs: np.ndarray, to_values: np.ndarray
    ) -> np.ndarray:
        """Returns the gradient (d,) of a sum over steps, given its derivatives with respect to the
        outputs and the values.
        """


def gradient(
    recipe: Recipe,
    theta: np.ndarray,
    episodes: list[History],
    network: GradientPolicy | None = None,
) -> np.ndarray:
    """Returns g, the gradient of the paper's loss (`estimators/loss.py`), averaged over the local
    episodes.
    """
    network, critic = network or Network(recipe), recipe.critic
    targets = [returns(recipe, e, _last_value(recipe, theta, e, network)) for e in episodes]
    if recipe.fits:
        features = np.concatenate([fit_features(recipe, e.observations[:-1]) for e in episodes])
        joined = np.concatenate(targets)
        residual = joined - features @ fit(recipe, features, joined)
        deviation = np.sqrt(np.mean(residual**2)) if recipe.standardize == "scale" else 1.0
        targets = np.split(
            residual / max(deviation, STD_FLOOR), np.cumsum([len(t) for t in targets])[:-1]
        )
    total = np.zeros(len(theta))
    for episode, target in zip(episodes, targets, strict=True):
        p = network.forward(theta, episode.observations)
        steps = Passed([x[:-1] for x in p.inputs], p.outputs[:-1], p.values[:-1])
        advantage = target - steps.values if critic else target
        chosen, entropy = cotangents(recipe, steps.outputs, episode.actions)
        to_outputs = advantage[:, None] * chosen + recipe.entropy_weight * entropy
        to_values = -2 * recipe.value_weight * advantage if critic else np.zeros(len(target))
        weight = 1 / len(target) if recipe.reduction == "mean" else 1.0
        total += weight * network.backward(theta, steps, to_outputs, to_values)
    return total / len(episodes)


def returns(recipe: Recipe, episode: History, after: float) -> np.ndarray:
    """Returns R_t for every step, with `after` in place of V(s_T)."""
    rewards = episode.rewards
    if recipe.reward != "step":
        won = rewards.sum() >= recipe.score_threshold
        rewards = np.zeros_like(rewards)
        rewards[-1] = (
            (1.0 if won else -1.0) if recipe.reward == "end" else -float(episode.terminated)
        )
    made = np.empty(len(rewards))
    for t in range(len(rewards) - 1, -1, -1):
        after = made[t] = rewards[t] + recipe.discount * after
    return made


def fit_features(recipe: Recipe, observations: np.ndarray) -> np.ndarray:
    """Returns the features of the fit to the returns, a row for each step.

    They are (1, τ, τ², x, x²) for a local baseline, else a constant.
    """
    ones = np.ones((len(observations), 1))
    if recipe.baseline != "local":
        return ones
    time = np.arange(len(observations))[:, None] / recipe.max_steps
    x = scaled(observations, recipe) if recipe.image is None else coarse(observations, recipe.image)
    return np.concatenate([ones, time, time**2, x, x**2], axis=1)


def coarse(observations: np.ndarray, image: tuple[int, int, int]) -> np.ndarray:
    """Returns the brightness of pictures in GRID × GRID cells, in [−1, 1], a row for each."""
    height, width, _ = image
    grey = observations.reshape(-1, *image).mean(axis=3) / 127.5 - 1
    down, across = min(GRID, height), min(GRID, width)
    rows, columns = np.arange(height) * down // height, np.arange(width) * across // width
    strips = np.stack([grey[:, rows == i].mean(axis=1) for i in range(down)], axis=1)
    return np.stack(
        [strips[:, :, columns == j].mean(axis=2) for j in range(across)], axis=2
    ).reshape(len(grey), -1)


def fit(recipe: Recipe, features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the coefficients β: by ridge regression for a local baseline, else the mean."""
    gram, k = features.T @ features, features.shape[1]
    ridge = max(BASELINE_RIDGE * np.trace(gram) / k, 1e-12) if recipe.baseline == "local" else 0.0
    made: np.ndarray = np.linalg.solve(gram + ridge * np.eye(k), features.T @ targets)
    return made


def _last_value(
    recipe: Recipe, theta: np.ndarray, episode: History, network: GradientPolicy
) -> float:
    """Returns the number that takes the place of V(s_T) in the returns of an episode."""
    if (
        not recipe.critic
        or recipe.bootstrap == "zero"
        or (recipe.bootstrap == "timeout" and episode.terminated)
    ):
        return 0.0
    return float(network.forward(theta, episode.observations).values[-1])
