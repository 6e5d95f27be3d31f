"""The network of `policies/actor_critic.py` in NumPy, for devices: π and V over one flat θ, and
the gradient of a sum over steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pgc.local_training.recipe import Recipe

Stack = list[tuple[np.ndarray, np.ndarray]]
"""Weights (rows, outputs, inputs) and biases (rows, outputs) of each layer."""


class Passed(NamedTuple):
    """The result of a forward pass, with one row for each observation."""

    inputs: list[np.ndarray]  # inputs of the shared layers and of the heads
    outputs: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Network:
    """Shared layers (ReLU, or tanh), a linear policy head, a linear value head. θ is laid out as in
    `ActorCritic`.
    """

    recipe: Recipe

    def layers(self, theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns the weights and biases of each layer."""
        at, found = 0, []
        for out, into in self.recipe.shapes:
            weight = theta[at : at + out * into].reshape(out, into)
            at += out * into
            bias = theta[at : at + out] if self.recipe.biases else np.zeros(out)
            at += out * self.recipe.biases
            found.append((weight, bias))
        return found

    def forward(self, theta: np.ndarray, observations: np.ndarray) -> Passed:
        """Returns outputs and values at observations (n, features)."""
        *shared, policy, value = self.layers(theta)
        inputs = [scaled(observations, self.recipe) if self.recipe.normalize else observations]
        for weight, bias in shared:
            inputs.append(self._active(inputs[-1] @ weight.T + bias))
        top = inputs[-1]
        return Passed(inputs, top @ policy[0].T + policy[1], (top @ value[0].T + value[1])[:, 0])

    def backward(
        self, theta: np.ndarray, passed: Passed, to_outputs: np.ndarray, to_values: np.ndarray
    ) -> np.ndarray:
        """Returns the gradient (d,) of a sum over steps, given its derivatives with respect to the
        outputs (n, outputs) and the values (n,).
        """
        *shared, policy, value = self.layers(theta)
        pieces = [
            self._piece(to_values[:, None], passed.inputs[-1]),
            self._piece(to_outputs, passed.inputs[-1]),
        ]
        back = to_outputs @ policy[0] + to_values[:, None] @ value[0]
        for (weight, _), before, after in zip(
            shared[::-1], passed.inputs[-2::-1], passed.inputs[:0:-1], strict=True
        ):
            back = np.where(after > 0, back, 0.0) if self._relu else back * (1 - after**2)
            pieces.append(self._piece(back, before))
            back = back @ weight
        return np.concatenate(pieces[::-1])

    @property
    def _relu(self) -> bool:
        return self.recipe.activation == "relu"

    def _active(self, x: np.ndarray) -> np.ndarray:
        made: np.ndarray = np.maximum(x, 0) if self._relu else np.tanh(x)
        return made

    def _piece(self, to_layer: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        weight = (to_layer.T @ inputs).ravel()
        return np.concatenate([weight, to_layer.sum(axis=0)]) if self.recipe.biases else weight

    def stack(self, thetas: list[np.ndarray]) -> Stack:
        """Returns several θ in the form that `each` takes."""
        every = zip(*(self.layers(theta) for theta in thetas), strict=True)
        return [
            (np.stack([w for w, _ in layer]), np.stack([b for _, b in layer])) for layer in every
        ]

    def put(self, stack: Stack, row: int, theta: np.ndarray) -> None:
        """Puts another θ into a row."""
        for (weights, biases), (weight, bias) in zip(stack, self.layers(theta), strict=True):
            weights[row], biases[row] = weight, bias

    def keep(self, stack: Stack, rows: np.ndarray) -> Stack:
        """Returns the stack with these rows only."""
        return [(weights[rows], biases[rows]) for weights, biases in stack]

    def each(self, stack: Stack, observations: np.ndarray) -> np.ndarray:
        """Returns the outputs (rows, outputs) of each θ at its own observation.

        A row is the same to the last bit, whatever the other rows are.
        """
        x = scaled(observations, self.recipe) if self.recipe.normalize else observations
        for weights, biases in stack[:-2]:
            x = self._active(np.matmul(weights, x[:, :, None])[:, :, 0] + biases)
        weights, biases = stack[-2]
        made: np.ndarray = np.matmul(weights, x[:, :, None])[:, :, 0] + biases
        return made


def cotangents(
    recipe: Recipe, outputs: np.ndarray, actions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns −∂ log π(a)/∂ outputs and −∂H/∂ outputs, (n, outputs) each."""
    if isinstance(recipe.actions, int):
        pi = softmax(outputs)
        log_pi = np.log(np.maximum(pi, 1e-300))
        chosen = np.eye(recipe.actions)[actions.astype(int)]
        return pi - chosen, pi * (log_pi - (pi * log_pi).sum(axis=1, keepdims=True))
    middle, half = middle_and_half(recipe.actions)
    return (outputs - (actions - middle) / half) / recipe.std**2, np.zeros_like(outputs)


def softmax(outputs: np.ndarray) -> np.ndarray:
    """Returns the probabilities π (n, actions) of logits."""
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    made: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return made


def scaled(observations: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Returns observations scaled to [−1, 1] by their public bounds."""
    middle, half = middle_and_half(recipe.bounds)
    made: np.ndarray = (observations - middle) / half
    return made


def middle_and_half(bounds: tuple[tuple[float, float], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the middle of each range, and half its length."""
    low, high = np.array(bounds, float).T
    return (high + low) / 2, (high - low) / 2
