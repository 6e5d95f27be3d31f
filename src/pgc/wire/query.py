"""What an offer asks for: a mechanism with every parameter, as 34 bytes; and the payload of a
report.

A device builds the mechanism from these numbers alone, and the mechanism itself refuses those with
which it could promise nothing. ε is a whole number of nano-ε, so that what is promised and what is
charged are the same number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from pgc.errors import PgcError, in_one_line
from pgc.randomise.budget import LARGEST_NANO, epsilon_of, nano_of
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.forms import WireForm
from pgc.randomise.mechanisms.registry import ON_THE_WIRE, mechanism_for, on_the_wire
from pgc.wire.fields import Malformed, Reader, check

MOST_NUMBERS = 2**20
"""The most numbers in a gradient, and hence in θ."""
MOST_PUBLIC_WORDS = 2**22
"""The most public words that a device makes from a seed, whatever an offer asks for: 16 MiB."""
FORM = "BBQQdII"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A mechanism's parameters, and the noisy boolean's ε."""

    kind: int
    """Which mechanism: its `wire_number`."""
    nano_epsilon: int
    """ε of the gradient's code, in nano-ε."""
    score_nano_epsilon: int = 0
    """ε of the noisy boolean "score ≥ Θ", in nano-ε; 0 if none is asked for."""
    dim: int
    """How many numbers are randomised: those of the gradient, or of its coordinates in the offer's
    basis."""
    clip: float = 1.0
    """C, the clipping size; 1 for a mechanism that reports a direction and is not lifted."""
    size: int = 0
    """d̂ of `prs` and `prs-sign`, M of `index`, else 0 (`forms.WireForm`)."""
    nearest: int = 0
    """k of `index`, the number of vectors that count as near; else 0."""
    flags: int = 0
    """1: lifted, the norm up to C is reported as well; 2: `prs` is decoded to be unbiased."""

    @classmethod
    def of(cls, mechanism: Mechanism, score_epsilon: float = 0.0) -> Query:
        """Returns the query for this mechanism, with its ε rounded down to whole nano-ε."""
        if not on_the_wire(mechanism):
            known = ", ".join(kind.name for kind in ON_THE_WIRE.values())
            raise PgcError(
                f"an offer cannot ask for '{mechanism.core.name}'; choose {known}; "
                "one of your own needs a wire_number and @register"
            )
        form = mechanism.to_wire()
        query = cls(
            kind=form.number,
            nano_epsilon=nano_of(mechanism.epsilon),
            score_nano_epsilon=nano_of(score_epsilon),
            dim=mechanism.dim,
            clip=form.clip,
            size=form.size,
            nearest=form.nearest,
            flags=form.flags,
        )
        if not _alike(mechanism, query.mechanism):
            raise PgcError(f"an offer for {mechanism.title} would ask for another mechanism")
        return query

    def __post_init__(self) -> None:
        """Refuses numbers that describe no mechanism, or one whose code no report could carry."""
        check(self.kind in ON_THE_WIRE, f"offer: mechanism {self.kind} is unknown")
        check(0 < self.nano_epsilon <= LARGEST_NANO, "offer: an epsilon is out of range")
        check(0 <= self.score_nano_epsilon <= LARGEST_NANO, "offer: an epsilon is out of range")
        check(
            1 <= self.dim <= MOST_NUMBERS,
            f"offer: a report of {self.dim} numbers; 1 to {MOST_NUMBERS} are possible",
        )
        try:
            mechanism = self.mechanism
            mechanism.refuse_release()
            bits, promised = mechanism.code_bits, mechanism.guarantee.epsilon
        except PgcError as error:
            raise Malformed(f"offer: {error}") from None
        except Exception as error:  # a mechanism from outside may fail in any way
            raise Malformed(f"offer: {self.name} raised {in_one_line(error)}") from None
        epsilon, kind = epsilon_of(self.nano_epsilon), ON_THE_WIRE[self.kind]
        check(
            type(mechanism.core) is kind and mechanism.dim == self.dim,
            f"offer: {self.name} does not make the mechanism that is asked for",
        )
        check(
            mechanism.epsilon == mechanism.core.epsilon == epsilon and promised <= epsilon,
            f"offer: {self.name} does not promise the ε that is charged",
        )
        check(isinstance(bits, int) and bits >= 1, "offer: a report would have no size")
        check(
            mechanism.public_words <= MOST_PUBLIC_WORDS,
            "offer: the mechanism would take too much memory",
        )

    @property
    def name(self) -> str:
        """The name of the mechanism that is asked for."""
        return ON_THE_WIRE[self.kind].name

    @property
    def cost(self) -> int:
        """What one report costs, in nano-ε."""
        return self.nano_epsilon + self.score_nano_epsilon

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism Q. Its ε is the largest float that is not above what is charged."""
        form = WireForm(self.kind, self.clip, self.size, self.nearest, self.flags)
        return mechanism_for(form, dim=self.dim, epsilon=epsilon_of(self.nano_epsilon))

    def encode(self) -> bytes:
        """Returns the query as bytes, without `dim`, which is written elsewhere in the offer."""
        return struct.pack(
            "<" + FORM,
            self.kind,
            self.flags,
            self.nano_epsilon,
            self.score_nano_epsilon,
            self.clip,
            self.size,
            self.nearest,
        )

    @classmethod
    def read(cls, reader: Reader, dim: int) -> Query:
        """Reads a query that `encode` wrote, for reports of `dim` numbers."""
        kind, flags, nano, score_nano, clip, size, nearest = reader.take(FORM)
        return cls(
            kind=kind,
            flags=flags,
            nano_epsilon=nano,
            score_nano_epsilon=score_nano,
            dim=dim,
            clip=clip,
            size=size,
            nearest=nearest,
        )

    # The payload of a report

    @property
    def payload_size(self) -> int:
        """The size of a payload in bytes, which depends on the offer alone."""
        return -(-(self.mechanism.code_bits + (self.score_nano_epsilon > 0)) // 8)

    def encode_code(self, code: Any, score_bit: bool | None) -> bytes:
        """Returns the payload: the code as one integer, with the noisy boolean in the bit above."""
        assert (score_bit is not None) == (self.score_nano_epsilon > 0)
        number, bits = self.mechanism.pack(code), self.mechanism.code_bits
        if not 0 <= number < 1 << bits:
            raise ValueError(f"{self.name} made a code of more than {bits} bits")
        number |= int(score_bit or 0) << bits
        return number.to_bytes(self.payload_size, "little")

    def decode_code(self, payload: bytes) -> tuple[Any, bool | None]:
        """Returns the code and the noisy boolean (or None) of a payload, or raises `Malformed`.

        The code is one that the mechanism can make.
        """
        check(
            len(payload) == self.payload_size,
            f"report: {len(payload)} bytes of payload in place of {self.payload_size}",
        )
        bits, scored = self.mechanism.code_bits, self.score_nano_epsilon > 0
        number = int.from_bytes(payload, "little")
        check(number < 1 << (bits + scored), "report: bits that mean nothing are set")
        try:
            code = self.mechanism.unpack(number & ((1 << bits) - 1))
        except Exception as error:  # a mechanism from outside may raise anything
            reason = error if isinstance(error, ValueError) else in_one_line(error)
            raise Malformed(f"report: {reason}") from None
        return code, bool(number >> bits) if scored else None


def _alike(one: Mechanism, other: Mechanism) -> bool:
    """Returns whether two mechanisms are the same, apart from ε, an unused clip, and fields that
    are None in the first.
    """
    if type(one) is not type(other):
        return False
    unused = {"epsilon"} if one.clips else {"epsilon", "clip"}
    for name in (f.name for f in fields(one) if f.name not in unused):
        mine, theirs = getattr(one, name), getattr(other, name)
        inside = isinstance(mine, Mechanism)
        if not (_alike(mine, theirs) if inside else mine is None or mine == theirs):
            return False
    return True
