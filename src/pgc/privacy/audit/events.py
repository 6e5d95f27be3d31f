"""The two gradients that are easiest to tell apart, and the event that tells them apart best, for
each mechanism.

A mechanism states its own (`Mechanism.event`). It is the event of the likelihood-ratio test:
P(event | one) = e^ε · P(event | other) exactly, where ε is the mechanism's claim.
"""

from __future__ import annotations

import numpy as np

from pgc.randomise.exact.words import public_words
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.forms import Codes, Event
from pgc.wire.offer import public_seed


def public(mechanism: Mechanism, number: int) -> np.ndarray:
    """Returns a mechanism's public words for the offer of this number."""
    return public_words(public_seed(number), mechanism.public_words)


def strongest(mechanism: Mechanism) -> Event | None:
    """Returns the event of the likelihood-ratio test; None where it is not known (`search.py` looks
    for one).
    """
    return mechanism.event(lambda number: public(mechanism, number))


def extremes(mechanism: Mechanism) -> list[np.ndarray]:
    """Returns gradients that the search compares as well, because the mechanism treats them least
    alike.
    """
    return mechanism.extremes(lambda number: public(mechanism, number))


__all__ = ["Codes", "Event", "extremes", "public", "strongest"]
