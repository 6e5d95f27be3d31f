"""Step 1 as bytes: what a device is handed for one submission. All of it is public."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pgc.wire.fields import Reader, check
from pgc.wire.query import MOST_NUMBERS, Query

OFFER_V1 = 0xD1
HEAD = "<BQIQ"
HEAD_SIZE = struct.calcsize(HEAD)
LARGEST_OFFER = 2**26
"""64 MiB: no offer is larger."""


def public_seed(offer_id: int) -> bytes:
    """The seed of an offer's public randomness: it depends on the offer's number alone."""
    return b"pgc public 1" + offer_id.to_bytes(8, "little")


@dataclass(frozen=True, kw_only=True, eq=False)
class Offer:
    """One device, one submission."""

    offer_id: int
    """64 bits, never used for another offer. The public randomness is made of it."""
    policy_version: int
    """Which θ this is."""
    expires_at: int = 0
    """Seconds since 1970 after which a device refuses; 0: never."""
    query: Query
    """The mechanism, with every parameter, and its price."""
    episodes: int = 1
    """Local episodes that the report is made of."""
    alpha: float = 0.0
    """α: the probability of a random action."""
    theta: np.ndarray
    """θ (d,), float32."""
    basis: np.ndarray | None = None
    """W (d, k), float32, of the subspace to report in; None: the whole gradient."""

    def __post_init__(self) -> None:
        """The parts fit each other."""
        check(
            0 <= self.offer_id < 2**64 and 0 <= self.policy_version < 2**32,
            "offer: a number is out of range",
        )
        check(0 <= self.expires_at < 2**63, "offer: the time at which it expires is out of range")
        check(1 <= self.episodes < 2**16, "offer: between 1 and 65535 local episodes are possible")
        check(
            0 <= self.alpha <= 1 and math.copysign(1, self.alpha) > 0,
            "offer: alpha is a probability",
        )
        check(
            self.theta.ndim == 1 and self.theta.dtype == np.float32,
            "offer: θ is a vector of float32",
        )
        check(
            self.basis is None or self.basis.dtype == np.float32, "offer: the basis is of float32"
        )
        asked = (len(self.theta), self.query.dim)
        shape = (asked[0], asked[0]) if self.basis is None else self.basis.shape
        check(
            shape == asked,
            f"offer: θ of {asked[0]} numbers does not go with a report of {asked[1]}",
        )

    @property
    def public_seed(self) -> bytes:
        """Of which M, a code or a hyperplane is made."""
        return public_seed(self.offer_id)

    @property
    def digest(self) -> bytes:
        """By which a device tells whether it is asked the same again."""
        return hashlib.sha256(self.encode()).digest()

    def encode(self) -> bytes:
        """Returns the offer as bytes (docs/wire.md)."""
        columns = 0 if self.basis is None else self.query.dim
        head = struct.pack(HEAD, OFFER_V1, self.offer_id, self.policy_version, self.expires_at)
        sizes = struct.pack("<HdII", self.episodes, self.alpha, len(self.theta), columns)
        basis = b"" if self.basis is None else self.basis.astype("<f4").tobytes()
        return head + sizes + self.query.encode() + self.theta.astype("<f4").tobytes() + basis

    @cached_property
    def _tail(self) -> bytes:
        return self.encode()[HEAD_SIZE:]

    def renumbered(self, offer_id: int, expires_at: int) -> bytes:
        """The same to another device, as bytes: only the number and the time differ."""
        return struct.pack(HEAD, OFFER_V1, offer_id, self.policy_version, expires_at) + self._tail

    @classmethod
    def decode(cls, data: bytes) -> Offer:
        """An offer, or `Malformed`.

        Whatever the bytes are, nothing beyond a few times their size is allocated.
        """
        check(
            len(data) <= LARGEST_OFFER,
            f"offer: {len(data)} bytes; at most {LARGEST_OFFER} are read",
        )
        reader = Reader(data, "offer")
        first, offer_id, policy_version, expires_at = reader.take("BQIQ")
        check(
            first == OFFER_V1,
            f"offer: begins with {first:#04x}; version 1 begins with {OFFER_V1:#04x}",
        )
        episodes, alpha, dim, columns = reader.take("HdII")
        check(
            1 <= dim <= MOST_NUMBERS and columns <= dim,
            f"offer: θ of {dim} numbers and a basis of {columns}",
        )
        query = Query.read(reader, columns or dim)
        theta = reader.floats(dim)
        basis = reader.floats(dim * columns).reshape(dim, columns) if columns else None
        reader.end()
        return cls(
            offer_id=offer_id,
            policy_version=policy_version,
            expires_at=expires_at,
            query=query,
            episodes=episodes,
            alpha=alpha,
            theta=theta,
            basis=basis,
        )
