"""Uniform 32-bit words: public ones from a seed that anyone may know, secret ones from the
operating system.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np


def public_words(seed: bytes, n: int) -> np.ndarray:
    """Returns n words that anyone with the seed can make: SHAKE-128 of it, little-endian."""
    return np.frombuffer(hashlib.shake_128(seed).digest(4 * n), "<u4").astype(np.uint32, copy=False)


def secret_words(n: int) -> np.ndarray:
    """Returns n words from the operating system, asked for anew at every call."""
    return np.frombuffer(secrets.token_bytes(4 * n), np.uint32)
