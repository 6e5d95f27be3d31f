"""What a policy's outputs mean: a distribution over actions, discrete (softmax) or continuous
(Gaussian).

Feature first: outputs are (outputs, *batch). A discrete action is (*batch,), a continuous one (dim,
*batch).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from pgc.errors import PgcError

Bounds = tuple[tuple[float, float], ...]
"""A box: the lowest and the highest value of each number."""
Words = tuple[jax.Array, jax.Array]
"""Two uniform 32-bit words."""


@dataclass(frozen=True)
class Categorical:
    """π = softmax(outputs) over `count` actions."""

    count: int

    @property
    def outputs(self) -> int:
        """Number of logits: one for each action."""
        return self.count

    @property
    def word_pairs(self) -> int:
        """Pairs of words that one draw uses."""
        return 1

    def draw(
        self,
        outputs: jax.Array,
        words: list[Words],
        alpha: jax.Array | float,
        greedy: jax.Array | bool,
    ) -> jax.Array:
        """Draws an action: with probability α any action, else one from π, or its argmax if
        `greedy`.
        """
        uniform = (words[0][0] >> 8).astype(outputs.dtype) * 2.0**-24
        return choose(behaviour(outputs, alpha, greedy), uniform)

    def greedy(self, outputs: jax.Array) -> jax.Array:
        """Returns the argmax; ties go to the lowest action."""
        return likeliest(outputs)

    def log_probability(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        """Returns log π(a), elementwise over the batch."""
        return jnp.take_along_axis(jax.nn.log_softmax(outputs, axis=0), action[None], axis=0)[0]

    def entropy(self, outputs: jax.Array) -> jax.Array:
        """Returns the entropy H(π), elementwise over the batch."""
        log_pi = jax.nn.log_softmax(outputs, axis=0)
        return -jnp.sum(jnp.exp(log_pi) * log_pi, axis=0)

    def cotangents(self, outputs: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns −∂ log π(a)/∂ outputs and −∂H/∂ outputs."""
        pi, log_pi = softmax(outputs)
        chosen = jnp.stack([action == a for a in range(self.count)])
        mean_log = sum(
            (p * lp for p, lp in zip(pi[1:], log_pi[1:], strict=True)), pi[0] * log_pi[0]
        )
        return pi - chosen, pi * (log_pi - mean_log)

    @cached_property
    def contrasts(self) -> np.ndarray:
        """The contrasts: a matrix (count − 1, count) of the differences of logits that matter to π.

        π does not change if the same number is added to every logit; the contrasts ignore it too.
        The rows are Helmert's contrasts, which are orthogonal, each with squared norm 2. For two
        actions there is one: the second logit minus the first.
        """
        rows = []
        for i in range(1, self.count):
            row = np.r_[-np.ones(i), i, np.zeros(self.count - i - 1)]
            rows.append(row * math.sqrt(2 / (i + i * i)))
        return np.asarray(rows, np.float32)


@dataclass(frozen=True)
class Gaussian:
    """π = N(output, std²) for each number of a continuous action, in units of half its range.

    0 is the middle of the range. A drawn action may lie outside; the world clips it.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    std: float = 0.5

    def __post_init__(self) -> None:
        """Refuses ranges that are none."""
        pairs = list(zip(self.low, self.high, strict=False))
        if len(self.low) != len(self.high) or not all(
            math.isfinite(low) and math.isfinite(high) and low < high for low, high in pairs
        ):
            raise PgcError(
                f"actions from {self.low} to {self.high} have no range: low and high need as many "
                "finite numbers, each low below its high"
            )

    @property
    def outputs(self) -> int:
        """The number of outputs: one mean for each number of an action."""
        return len(self.low)

    @property
    def word_pairs(self) -> int:
        """Pairs of words that one draw uses: a pair makes a normal number for each action, and one
        decides about α.
        """
        return len(self.low) + 1

    def draw(
        self,
        outputs: jax.Array,
        words: list[Words],
        alpha: jax.Array | float,
        greedy: jax.Array | bool,
    ) -> jax.Array:
        """Draws an action in the world's units: with probability α uniformly from the range, else
        from π, or π's mean if `greedy`.
        """
        normal = jnp.stack([_normal(*pair) for pair in words[1:]])
        anywhere = jnp.stack([_uniform(pair[1]) * 2 - 1 for pair in words[1:]])
        chosen = outputs + jnp.where(greedy, 0.0, self.std * normal)
        return self._in_units(jnp.where(_uniform(words[0][0]) < alpha, anywhere, chosen))

    def greedy(self, outputs: jax.Array) -> jax.Array:
        """Returns the mean, in the world's units."""
        return self._in_units(outputs)

    def log_probability(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        """Returns the logarithm of the density, without its constant."""
        return -jnp.sum((self._normalized(action) - outputs) ** 2, axis=0) / (2 * self.std**2)

    def entropy(self, outputs: jax.Array) -> jax.Array:
        """Returns 0: the deviation is not learnt, so the entropy is a constant."""
        return jnp.zeros(outputs.shape[1:])

    def cotangents(self, outputs: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns −∂ log π(a)/∂ outputs and −∂H/∂ outputs."""
        return (outputs - self._normalized(action)) / self.std**2, jnp.zeros_like(outputs)

    @cached_property
    def contrasts(self) -> np.ndarray:
        """The identity: every output matters."""
        return np.eye(len(self.low), dtype=np.float32)

    def _in_units(self, action: jax.Array) -> jax.Array:
        middle, half = self._range(action)
        return middle + half * action

    def _normalized(self, action: jax.Array) -> jax.Array:
        middle, half = self._range(action)
        return (action - middle) / half

    def _range(self, like: jax.Array) -> tuple[jax.Array, jax.Array]:
        low, high = (
            jnp.asarray(x, like.dtype).reshape(-1, *[1] * (like.ndim - 1))
            for x in (self.low, self.high)
        )
        return (high + low) / 2, (high - low) / 2


Actions = Categorical | Gaussian


def _uniform(word: jax.Array) -> jax.Array:
    return (word >> 8).astype(jnp.float32) * 2.0**-24


def _normal(first: jax.Array, second: jax.Array) -> jax.Array:
    """Returns one standard normal number made of two words (Box and Muller 1958)."""
    return jnp.sqrt(-2 * jnp.log((first.astype(jnp.float32) + 0.5) * 2.0**-32)) * jnp.cos(
        2 * jnp.pi * _uniform(second)
    )


def softmax(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns π and log π of logits (actions, *batch).

    The few actions are summed one by one (see `sum_of_products`).
    """
    shifted = logits - functools.reduce(jnp.maximum, list(logits))
    powers = jnp.exp(shifted)
    total = functools.reduce(jnp.add, list(powers))
    return powers / total, shifted - jnp.log(total)


def in_box(observation: jax.Array, bounds: Bounds) -> jax.Array:
    """Returns observations (numbers, *batch), scaled so that the public box becomes [−1, 1]ⁿ.

    Devices and PyTorch policies compute the same in NumPy (`numpy_network.py`,
    `torch_module.py`), with other last bits.
    """
    low, high = (jnp.asarray(end, observation.dtype) for end in zip(*bounds, strict=True))
    shape = (-1,) + (1,) * (observation.ndim - 1)
    return (observation - ((low + high) / 2).reshape(shape)) * (2 / (high - low)).reshape(shape)


def likeliest(logits: jax.Array) -> jax.Array:
    """Returns the argmax over the first axis; ties go to the lowest action.

    It is written out because a loop over a few actions compiles to faster code than `argmax`.
    """
    best, highest = jnp.zeros(logits.shape[1:], jnp.int32), logits[0]
    for a in range(1, logits.shape[0]):
        best = jnp.where(logits[a] > highest, a, best)
        highest = jnp.maximum(logits[a], highest)
    return best


def behaviour(logits: jax.Array, alpha: jax.Array | float, greedy: jax.Array | bool) -> jax.Array:
    """Probabilities of the actions taken: (1 − α)·π + α/|A|, with π's argmax in place of π when
    `greedy`.

    `logits` is (actions, *batch). Ties of the argmax go to the lowest action.
    """
    num_actions, best = logits.shape[0], likeliest(logits)
    pure = jnp.stack([best == a for a in range(num_actions)]).astype(logits.dtype)
    pi = jnp.where(greedy, pure, softmax(logits)[0])
    return (1 - alpha) * pi + alpha / num_actions


def choose(probabilities: jax.Array, uniform: jax.Array) -> jax.Array:
    """The action that one uniform number in [0, 1) selects: inverse of the cumulative
    distribution.
    """
    action = jnp.zeros(uniform.shape, jnp.int32)
    cumulative = jnp.zeros_like(uniform)
    for a in range(probabilities.shape[0] - 1):
        cumulative = cumulative + probabilities[a]
        action = action + (uniform >= cumulative)
    return action
