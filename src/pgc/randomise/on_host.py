"""Step 3 for agents that are simulated on the host, in NumPy.

The random numbers have addresses, as in `simulated.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pgc.numerics.randomness import Stream, host_rng
from pgc.randomise.exact.words import public_words
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.simulated import Randomiser


class Drawn(NamedTuple):
    """A code and a noisy boolean: what reaches the aggregator."""

    code: np.ndarray  # what the mechanism drew
    bit: bool  # the noisy boolean


def draw_code(
    randomiser: Randomiser,
    coordinates: np.ndarray,
    success: bool,
    seed: int,
    trial: int,
    submission: int,
) -> Drawn:
    """Returns the code of one submission, and its noisy boolean (False when no score is sent)."""
    mechanism = randomiser.mechanism
    gradient = mechanism.flat(np.zeros_like(coordinates) if randomiser.control else coordinates)
    public = public_words(simulated_public_seed(seed, trial, submission), mechanism.public_words)
    secret = host_rng(seed, trial, submission, Stream.SECRET).integers(
        2**32, size=mechanism.secret_words, dtype=np.uint32
    )
    code, bit = mechanism.draw(mechanism.prepare(gradient, public), secret), False
    if randomiser.score_bit is not None:
        word = host_rng(seed, trial, submission, Stream.SCORE).integers(
            2**32, size=1, dtype=np.uint32
        )
        bit = bool(randomiser.score_bit.draw(np.asarray(success), word[0]))
    return Drawn(np.asarray(code), bit)


def decode(
    mechanism: Mechanism, code: np.ndarray, seed: int, trial: int, submission: int
) -> np.ndarray:
    """Returns z̃ on the aggregator: the estimate in the coordinates of the delivery's subspace."""
    made: np.ndarray = mechanism.decode(
        code, public_words(simulated_public_seed(seed, trial, submission), mechanism.public_words)
    )
    return made


def simulated_public_seed(seed: int, trial: int, submission: int) -> bytes:
    """Returns the seed of a report's public words: anyone may know it, and it does not depend on
    the gradient.
    """
    return b"pgc simulated public " + b"".join(
        int(x).to_bytes(8, "little") for x in (seed, trial, submission)
    )
