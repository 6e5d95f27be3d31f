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
from pgc.mechanisms import Mechanism
from pgc.mechanisms.laplace import Laplace
from pgc.mechanisms.lift import NormLift
from pgc.release.lattice import release_laplace


def release(mechanism: Mechanism, gradient: Any, seed: bytes) -> Any:
    """The code of one report of any array-like gradient. `seed` is public and new for every report; a hostile one costs no ε."""
    vector = mechanism.flat(np.asarray(gradient, np.float64))
    if type(mechanism) is Laplace:
        return release_laplace(vector, mechanism.clip, mechanism.epsilon)
    inside = mechanism.inner if isinstance(mechanism, NormLift) else mechanism
    if not inside.integers:
        raise PgcError(f"{inside.name} has no exact form and is for simulation only; release with index, duchi, prs or laplace")
    thresholds = mechanism.prepare(vector, public_words(seed, mechanism.public_words))
    return mechanism.draw(thresholds, secret_words(mechanism.secret_words))


def public_words(seed: bytes, n: int) -> np.ndarray:
    """So many uniform 32-bit words, which anyone with the seed can make: SHAKE-128 of it, little-endian."""
    return np.frombuffer(hashlib.shake_128(seed).digest(4 * n), "<u4").astype(np.uint32)


def secret_words(n: int) -> np.ndarray:
    """So many uniform 32-bit words from the operating system, asked for anew at every call."""
    return np.frombuffer(secrets.token_bytes(4 * n), np.uint32)
