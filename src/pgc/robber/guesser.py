"""The robber's statistics: which of m secrets does a vector suggest?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHRINK = 0.01
"""How much of a round covariance is mixed in: with few vectors theirs is not known well."""


@dataclass(frozen=True)
class Guesser:
    """Fisher's linear discriminant, learnt from vectors whose secrets the robber knows because it
    made them.

    It is the best guess where vectors of one secret are normal with a covariance that all secrets
    share, which reports under much noise nearly are.
    """

    weights: np.ndarray
    """(k, m)."""
    offsets: np.ndarray
    """(m,)."""

    @classmethod
    def learn(cls, vectors: np.ndarray, secrets: np.ndarray) -> Guesser:
        """Learns from vectors (n, k) and the number of the secret of each, from 0."""
        secrets = np.asarray(secrets)
        means = np.stack([vectors[secrets == i].mean(axis=0) for i in range(secrets.max() + 1)])
        rest = vectors - means[secrets]
        covariance = rest.T @ rest / len(vectors)
        size = np.trace(covariance) / len(covariance)
        covariance += (SHRINK * size + 1e-30) * np.eye(len(covariance))
        weights = np.linalg.solve(covariance, means.T)
        return cls(weights, -0.5 * np.sum(means.T * weights, axis=0))

    def guess(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the number of the likeliest secret for each vector (n, k)."""
        return np.asarray(np.argmax(vectors @ self.weights + self.offsets, axis=1))
