"""Step 3 in a simulation: the same mechanisms, with random words that a seed decides.

These draws must never be released (see `release.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from pgc.numerics import randomness
from pgc.numerics.projection import to_theta_space
from pgc.numerics.randomness import Address, Stream
from pgc.numerics.tracing import trace_fields, trace_numbers
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.score_bit import ScoreBit


@dataclass(frozen=True, kw_only=True)
class Randomiser:
    """What every agent does with its gradient and score before anything leaves it."""

    mechanism: Mechanism
    """Q, with the ε of *one* submission."""
    score_bit: ScoreBit | None = None
    """Randomises "score ≥ Θ", with the score's ε of one submission; None sends no score."""
    submissions_per_agent: int = 1
    """T: how often one agent submits before it has spent its budget."""
    control: bool | jax.Array = False
    """Whether every gradient is replaced by zero before the mechanism, to show what noise alone
    achieves."""

    def __post_init__(self) -> None:
        """Turns the mechanism's numbers into arguments of compiled programs."""
        if isinstance(self.mechanism, Mechanism):  # it is not while JAX takes the tree apart
            trace_numbers(self.mechanism)


trace_fields(Randomiser, "mechanism", "control")


def words_for_report(randomiser: Randomiser, at: Address) -> tuple[jax.Array, jax.Array]:
    """Returns the public and the secret words of a report, (words, *batch).

    On a device, the secret words come from the operating system.
    """
    public, secret = randomiser.mechanism.simulated_words
    return (
        randomness.vector(at.seed, Stream.PUBLIC, at.submission, public),
        randomness.vector(at.seed, Stream.SECRET, at.submission, secret),
    )


def simulate_report(
    randomiser: Randomiser,
    basis: jax.Array | None,
    coordinates: jax.Array,
    public: jax.Array,
    secret: jax.Array,
) -> jax.Array:
    """Returns g̃ = W·Q(z): what the aggregator decodes from the report of the coordinates z = Wᵀ g.

    A simulation draws and decodes in one call.
    """
    return to_theta_space(
        basis,
        randomiser.mechanism.simulate(
            jnp.where(randomiser.control, 0.0, coordinates), public, secret
        ),
    )


def randomise_score(randomiser: Randomiser, success: jax.Array, at: Address) -> jax.Array:
    """Returns the noisy boolean of "score ≥ Θ"; False when no score is sent."""
    if randomiser.score_bit is None:
        return jnp.zeros(success.shape, bool)
    secret = randomness.words(at.seed, Stream.SCORE, at.submission, 0)[0]
    bit: jax.Array = randomiser.score_bit.draw(success, secret)
    return bit
