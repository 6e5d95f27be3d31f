"""Step 3 on a real device: draws the report that answers an offer."""

from __future__ import annotations

import numpy as np

from pgc.randomise.budget import epsilon_of
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.release import release, release_score
from pgc.wire import Offer, Report


def draw_report(offer: Offer, vector: np.ndarray, success: bool | None) -> bytes:
    """Returns the bytes of one report, with fresh bits of the operating system.

    Whoever calls this must have charged for it before (`pgc.device`).
    """
    query = offer.query
    code = release(query.mechanism, vector, offer.public_seed)
    bit = None
    if query.score_nano_epsilon:
        bit = release_score(ScoreBit(epsilon=epsilon_of(query.score_nano_epsilon)), bool(success))
    return Report(
        offer_id=offer.offer_id, policy_version=offer.policy_version, code=code, score_bit=bit
    ).encode(offer)
