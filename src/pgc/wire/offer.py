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
    """Returns the seed of an offer's public randomness, which depends on its number alone."""
    return b"pgc public 1" + offer_id.to_bytes(8, "little")


def offer_head(offer_id: int, policy_version: int, expires_at: int) -> bytes:
    """Returns how an offer's bytes begin: what is its own. `Offer.tail` follows."""
    return struct.pack(HEAD, OFFER_V1, offer_id, policy_version, expires_at)


@dataclass(frozen=True, kw_only=True, eq=False)
class Offer:
    """What one device is handed for one submission: θ, the basis, a mechanism and its price."""

    offer_id: int
    """A number of 64 bits that no other offer has. The public randomness is derived from it."""
    policy_version: int
    """The version of θ."""
    expires_at: int = 0
    """The time, in seconds since 1970, from which on a device refuses the offer; 0 for never."""
    query: Query
    """The mechanism, with every parameter, and its price."""
    episodes: int = 1
    """How many local episodes the device plays for its report."""
    alpha: float = 0.0
    """α: the probability of a random action."""
    theta: np.ndarray
    """θ (d,), float32."""
    basis: np.ndarray | None = None
    """The basis W (d, k), float32, of the subspace to report in; None for the whole gradient."""

    def __post_init__(self) -> None:
        """Refuses values that are out of range or do not fit each other."""
        check(
            0 <= self.offer_id < 2**64 and 0 <= self.policy_version < 2**32,
            "offer: a number is out of range",
        )
        check(0 <= self.expires_at < 2**63, "offer: the time at which it expires is out of range")
        check(1 <= self.episodes < 2**16, "offer: between 1 and 65535 local episodes are possible")
        check(
            0 <= self.alpha <= 1 and math.copysign(1, self.alpha) > 0,
            "offer: alpha must be a probability",
        )
        check(
            self.theta.ndim == 1 and self.theta.dtype == np.float32,
            "offer: θ must be a vector of float32",
        )
        check(
            self.basis is None or self.basis.dtype == np.float32, "offer: the basis must be float32"
        )
        asked = (len(self.theta), self.query.dim)
        shape = (asked[0], asked[0]) if self.basis is None else self.basis.shape
        check(
            shape == asked,
            f"offer: θ of {asked[0]} numbers does not go with a report of {asked[1]}",
        )

    @property
    def public_seed(self) -> bytes:
        """The seed from which a matrix, a code or a hyperplane is made for this offer."""
        return public_seed(self.offer_id)

    @property
    def digest(self) -> bytes:
        """A hash of the offer, by which a device recognises it when it is asked again."""
        return hashlib.sha256(self.encode()).digest()

    def encode(self) -> bytes:
        """Returns the offer as bytes (docs/wire.md)."""
        columns = 0 if self.basis is None else self.query.dim
        head = offer_head(self.offer_id, self.policy_version, self.expires_at)
        sizes = struct.pack("<HdII", self.episodes, self.alpha, len(self.theta), columns)
        basis = b"" if self.basis is None else self.basis.astype("<f4").tobytes()
        return head + sizes + self.query.encode() + self.theta.astype("<f4").tobytes() + basis

    @cached_property
    def tail(self) -> bytes:
        """What all offers of this version share: everything but the head, as bytes."""
        return self.encode()[HEAD_SIZE:]

    def renumbered(self, offer_id: int, expires_at: int) -> bytes:
        """Returns the same offer for another device, as bytes; only number and expiry differ."""
        return offer_head(offer_id, self.policy_version, expires_at) + self.tail

    @classmethod
    def decode(cls, data: bytes) -> Offer:
        """Returns the offer that the bytes encode, or raises `Malformed`.

        Whatever the bytes are, it allocates no more than a few times their size.
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
            f"offer: θ of {dim} numbers with a basis of {columns} columns is not possible",
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
