"""Step 3 on a real device: draws a mechanism's code with secret bits of the operating system. The
public words come from a seed.

A mechanism that compares integers (`Mechanism.integers`) releases exactly what it simulates:
`prepare` is deterministic, and `draw` compares uniform 32-bit words with thresholds that were
rounded to the safe side. `laplace` has a form of its own on a lattice (`exact/lattice.py`). The
other mechanisms have no exact form, and refuse to be released.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.randomise.exact.words import secret_words
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.score_bit import ScoreBit


def release(mechanism: Mechanism, gradient: Any, seed: bytes) -> Any:
    """Draws the code of one report of any array-like gradient.

    `seed` is public and new for every report; a hostile one cannot weaken the guarantee.
    """
    return mechanism.release(as_vector(gradient), seed)


def release_score(score_bit: ScoreBit, success: bool) -> bool:
    """Draws the noisy boolean."""
    return bool(score_bit.draw(np.asarray(success), secret_words(1)[0]))


def decode(mechanism: Mechanism, code: Any, seed: bytes) -> np.ndarray:
    """Returns g̃ of a code that `release` made, on the aggregator."""
    return mechanism.decode_released(code, seed)


def as_vector(gradient: Any) -> np.ndarray:
    """Returns any array-like (NumPy, PyTorch on any device, JAX, lists) as doubles."""
    if hasattr(gradient, "detach"):  # a PyTorch tensor, which may need gradients or be on a GPU
        gradient = gradient.detach().cpu().double().numpy()
    return np.asarray(gradient, np.float64)


__all__ = ["as_vector", "decode", "release", "release_score"]
