"""Step 3 on a real device: a mechanism's code, with secret bits of the operating system. The public part comes from a seed.

A mechanism that compares integers (`Mechanism.integers`) releases what it simulates, word for word: `prepare` is deterministic,
and `draw` compares uniform 32-bit words with thresholds that were rounded to the safe side. `laplace` has a form of its own on
a lattice (`lattice.py`). The others have no exact form, and refuse.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.exact.lattice import LARGEST_EPSILON, decode_laplace, release_laplace
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.laplace import Laplace
from pgc.randomise.mechanisms.lift import NormLift
from pgc.randomise.mechanisms.score_bit import ScoreBit


def release(mechanism: Mechanism, gradient: Any, seed: bytes) -> Any:
    """The code of one report of any array-like gradient. `seed` is public and new for every report; a hostile one costs no ε."""
    refuse_inexact(mechanism)
    vector = mechanism.flat(as_vector(gradient))
    if isinstance(mechanism, Laplace):
        return release_laplace(vector, mechanism.clip, mechanism.epsilon)
    thresholds = mechanism.prepare(vector, public_words(seed, mechanism.public_words))
    return mechanism.draw(thresholds, secret_words(mechanism.secret_words))


def release_score(score_bit: ScoreBit, success: bool) -> bool:
    """The noisy boolean."""
    return bool(score_bit.draw(np.asarray(success), secret_words(1)[0]))


def decode(mechanism: Mechanism, code: Any, seed: bytes) -> np.ndarray:
    """g̃ of a code that `release` made, on the aggregator."""
    if isinstance(mechanism, Laplace):
        return decode_laplace(code, mechanism.clip, mechanism.epsilon)
    return np.asarray(mechanism.decode(code, public_words(seed, mechanism.public_words)))


def refuse_inexact(mechanism: Mechanism) -> None:
    """Only what is exact in integers may leave a device."""
    inside = mechanism.inner if isinstance(mechanism, NormLift) else mechanism
    if not (inside.integers or type(inside) is Laplace):
        raise PgcError(f"{inside.name} has no exact form and is for simulation only; release with index, duchi, prs or laplace")
    if type(inside) is Laplace and inside.epsilon > LARGEST_EPSILON:
        raise PgcError(f"laplace is released with an epsilon of at most {LARGEST_EPSILON}, not {inside.epsilon:g}")


def as_vector(gradient: Any) -> np.ndarray:
    """Any array-like (NumPy, PyTorch on any device, JAX, lists) as doubles."""
    if hasattr(gradient, "detach"):  # a PyTorch tensor, which may need gradients or be on a GPU
        gradient = gradient.detach().cpu().double().numpy()
    return np.asarray(gradient, np.float64)


def public_words(seed: bytes, n: int) -> np.ndarray:
    """So many uniform 32-bit words, which anyone with the seed can make: SHAKE-128 of it, little-endian."""
    return np.frombuffer(hashlib.shake_128(seed).digest(4 * n), "<u4").astype(np.uint32, copy=False)


def secret_words(n: int) -> np.ndarray:
    """So many uniform 32-bit words from the operating system, asked for anew at every call."""
    return np.frombuffer(secrets.token_bytes(4 * n), np.uint32)
