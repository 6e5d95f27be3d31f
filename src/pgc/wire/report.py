"""Step 3 as bytes: a report is all that ever leaves a device.

The size of a report depends on its offer, and on nothing private.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgc.randomise.release import decode as decode_vector
from pgc.wire.fields import Reader, check
from pgc.wire.offer import Offer
from pgc.wire.query import Query

REPORT_V1 = 0xE1
HEAD = "BQI"
HEAD_SIZE = struct.calcsize("<" + HEAD)


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """The answer to one offer: a mechanism's code, and the noisy boolean if it was asked for."""

    offer_id: int
    policy_version: int
    code: Any
    """What the mechanism drew: a list of integers for `laplace`, a number for `index`, an array of
    bits for the others."""
    score_bit: bool | None = None
    """The noisy boolean, or None if it was not asked for."""

    def encode(self, offer: Offer) -> bytes:
        """Returns the report as bytes (docs/wire.md)."""
        head = struct.pack("<" + HEAD, REPORT_V1, self.offer_id, self.policy_version)
        return head + offer.query.encode_code(self.code, self.score_bit)

    @classmethod
    def decode(cls, data: bytes, offer: Offer) -> Report:
        """Returns the report that the bytes encode, or raises `Malformed`.

        It is a report that this offer's mechanism can make.
        """
        offer_id, policy_version, payload = split(data)
        check(
            offer_id == offer.offer_id,
            f"report: answers offer {offer_id:016x}, not {offer.offer_id:016x}",
        )
        check(
            policy_version == offer.policy_version,
            f"report: of policy version {policy_version}, not {offer.policy_version}",
        )
        code, score_bit = offer.query.decode_code(payload)
        return cls(offer_id=offer_id, policy_version=policy_version, code=code, score_bit=score_bit)

    def vector(self, offer: Offer) -> np.ndarray:
        """Returns g̃ ∈ R^d, the aggregator's estimate of the gradient.

        `offer` is the one that the report answers; its basis is used.
        """
        return self.estimate(offer.query, self.code, offer.public_seed, offer.basis)

    @staticmethod
    def estimate(query: Query, code: Any, seed: bytes, basis: np.ndarray | None) -> np.ndarray:
        """Returns g̃ for a code that answers an offer with this query, public seed and basis."""
        made = decode_vector(query.mechanism, code, seed)
        return made if basis is None else basis @ made


def split(data: bytes) -> tuple[int, int, bytes]:
    """Returns offer number, policy version and payload of bytes that begin like a report."""
    reader = Reader(data[:HEAD_SIZE], "report")
    first, offer_id, policy_version = reader.take(HEAD)
    check(
        first == REPORT_V1,
        f"report: begins with {first:#04x}; version 1 begins with {REPORT_V1:#04x}",
    )
    return offer_id, policy_version, data[HEAD_SIZE:]


def size_of(offer: Offer) -> int:
    """Returns the size in bytes of every report that answers this offer."""
    return HEAD_SIZE + offer.query.payload_size
