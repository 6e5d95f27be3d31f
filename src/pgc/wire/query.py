"""What an offer asks for: a mechanism with every parameter, as 34 bytes; and how its code is written into a report.

A device builds the mechanism from these numbers alone, and the mechanism itself refuses those with which it could promise
nothing. ε is a whole number of nano-ε, so that what is promised and what is charged are the same number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.budget import LARGEST_NANO, epsilon_of, nano_of
from pgc.randomise.exact.lattice import LARGEST
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.duchi import Duchi
from pgc.randomise.mechanisms.index_code import IndexCode
from pgc.randomise.mechanisms.laplace import Laplace
from pgc.randomise.mechanisms.lift import NormLift
from pgc.randomise.mechanisms.prs import ProjectedRandomSign
from pgc.randomise.mechanisms.prs_sign import ProjectedSign
from pgc.randomise.release import refuse_inexact
from pgc.wire.fields import Malformed, Reader, check

KINDS: dict[int, type[Mechanism]] = {1: Laplace, 2: ProjectedRandomSign, 3: ProjectedSign, 4: Duchi, 5: IndexCode}
NUMBERS = {kind: number for number, kind in KINDS.items()}
DIRECTIONS = (ProjectedSign, Duchi, IndexCode)
"""Those that need no clip, unless they are lifted."""
LIFTED, UNBIASED = 1, 2
MOST_BITS = 23
"""Of `prs`: a report of bits has at most 24, the noisy boolean included, and so 16 bytes in all."""
MOST_NUMBERS = 2**20
"""In a gradient, and so in θ."""
MOST_PUBLIC_WORDS = 2**22
"""That a device makes from a seed, whoever asks: 16 MiB."""
FORM = "BBQQdII"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A mechanism's parameters, and the noisy boolean's ε."""

    kind: int
    """Which mechanism: a key of KINDS."""
    nano_epsilon: int
    """Of the gradient's code, in nano-ε."""
    score_nano_epsilon: int = 0
    """Of the noisy boolean "score ≥ Θ"; 0: none is asked for."""
    dim: int
    """How many numbers are randomised: those of the gradient, or of its coordinates in the offer's basis."""
    clip: float = 1.0
    """C; 1 for directions that are not lifted."""
    size: int = 0
    """d̂ of `prs` and `prs-sign`, M of `index`, else 0."""
    nearest: int = 0
    """k of `index`, else 0."""
    flags: int = 0
    """1: lifted, the norm up to C is reported as well; 2: `prs` is decoded to be unbiased."""

    @classmethod
    def of(cls, mechanism: Mechanism, score_epsilon: float = 0.0) -> Query:
        """That asks for this mechanism, its ε rounded down to whole nano-ε."""
        inside = mechanism.inner if isinstance(mechanism, NormLift) else mechanism
        if type(inside) not in NUMBERS:
            raise PgcError(f"an offer cannot ask for '{inside.name}'; choose {', '.join(k.name for k in KINDS.values())}")
        lifted = LIFTED if isinstance(mechanism, NormLift) else 0
        unbiased = UNBIASED if type(inside) is ProjectedRandomSign and inside.unbiased else 0
        return cls(
            kind=NUMBERS[type(inside)],
            nano_epsilon=nano_of(inside.epsilon),
            score_nano_epsilon=nano_of(score_epsilon),
            dim=mechanism.dim,
            clip=1.0 if isinstance(inside, DIRECTIONS) and not lifted else mechanism.clip,
            size=getattr(inside, "reduced_dim", getattr(inside, "code_size", 0)),
            nearest=getattr(inside, "members", 0),
            flags=lifted | unbiased,
        )

    def __post_init__(self) -> None:
        """Refuse what has no mechanism, or what a report could not carry."""
        check(self.kind in KINDS, f"offer: mechanism {self.kind} is unknown")
        check(0 < self.nano_epsilon <= LARGEST_NANO, "offer: an epsilon is out of range")
        check(0 <= self.score_nano_epsilon <= LARGEST_NANO, "offer: an epsilon is out of range")
        check(1 <= self.dim <= MOST_NUMBERS, f"offer: a report of {self.dim} numbers; 1 to {MOST_NUMBERS} are possible")
        try:
            mechanism = self.mechanism
            refuse_inexact(mechanism)
        except PgcError as error:
            raise Malformed(f"offer: {error}") from None
        check(mechanism.public_words <= MOST_PUBLIC_WORDS, "offer: the mechanism would take too much memory")

    @property
    def name(self) -> str:
        """The mechanism's."""
        return KINDS[self.kind].name

    @property
    def cost(self) -> int:
        """What one report costs, in nano-ε."""
        return self.nano_epsilon + self.score_nano_epsilon

    @cached_property
    def mechanism(self) -> Mechanism:
        """Q, with the largest ε that is no more than what is charged."""
        kind, lifted, epsilon = KINDS[self.kind], bool(self.flags & LIFTED), epsilon_of(self.nano_epsilon)
        check(self.flags in ((0, UNBIASED) if kind is ProjectedRandomSign else (0, LIFTED)), "offer: flags are unknown")
        check(lifted or kind not in DIRECTIONS or self.clip == 1.0, "offer: a direction that is not lifted has no clip")
        options: dict[str, Any] = {}
        if issubclass(kind, ProjectedRandomSign):
            check(1 <= self.size <= MOST_BITS, f"offer: {self.size} bits; 1 to {MOST_BITS} are possible")
            options["reduced_dim"] = self.size
            if kind is ProjectedRandomSign:
                options["unbiased"] = bool(self.flags & UNBIASED)
        elif kind is IndexCode:
            options.update(code_size=self.size, nearest=self.nearest)
        check(self.size == 0 or bool(options), "offer: a size without a meaning")
        check(self.nearest == 0 or kind is IndexCode, "offer: a number of nearest without a meaning")
        if not lifted:
            return kind(dim=self.dim, epsilon=epsilon, clip=self.clip, **options)
        check(kind in (Duchi, IndexCode), f"offer: {kind.name} cannot be lifted")
        inner: Any = kind(dim=self.dim + 1, epsilon=epsilon, clip=1.0, **options)
        return NormLift(dim=self.dim, epsilon=epsilon, clip=self.clip, inner=inner)

    def encode(self) -> bytes:
        """As bytes; `dim` is written elsewhere in the offer."""
        return struct.pack(
            "<" + FORM, self.kind, self.flags, self.nano_epsilon, self.score_nano_epsilon, self.clip, self.size, self.nearest
        )

    @classmethod
    def read(cls, reader: Reader, dim: int) -> Query:
        """The inverse of `encode`."""
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
    def bits(self) -> int | None:
        """How many bits a code takes; None for the numbers of `laplace`."""
        if self.name == "laplace":
            return None
        return (self.size - 1).bit_length() if self.name == "index" else max(1, self.size)

    @property
    def payload_size(self) -> int:
        """Bytes of a payload: a function of the offer alone."""
        scored = int(self.score_nano_epsilon > 0)
        return 4 * self.dim + scored if self.bits is None else -(-(self.bits + scored) // 8)

    def encode_code(self, code: Any, score_bit: bool | None) -> bytes:
        """The payload: `laplace`, each number in four bytes; the others, one integer; then the noisy boolean."""
        assert (score_bit is not None) == (self.score_nano_epsilon > 0)
        if self.bits is None:
            return struct.pack(f"<{self.dim}i", *code) + (b"" if score_bit is None else bytes([score_bit]))
        number = int(code) if self.name == "index" else sum(int(bit) << i for i, bit in enumerate(np.atleast_1d(code)))
        return (number | int(score_bit or 0) << self.bits).to_bytes(self.payload_size, "little")

    def decode_code(self, payload: bytes) -> tuple[Any, bool | None]:
        """The inverse: a code that the mechanism can make, and the noisy boolean; or a refusal."""
        check(len(payload) == self.payload_size, f"report: {len(payload)} bytes of payload in place of {self.payload_size}")
        scored = self.score_nano_epsilon > 0
        if self.bits is None:
            numbers = list(struct.unpack(f"<{self.dim}i", payload[: 4 * self.dim]))
            check(min(numbers) >= -LARGEST, "report: a number is out of range")
            check(not scored or payload[-1] <= 1, "report: the noisy boolean is neither 0 nor 1")
            return numbers, bool(payload[-1]) if scored else None
        number = int.from_bytes(payload, "little")
        check(number < 1 << (self.bits + scored), "report: bits that mean nothing are set")
        code, score_bit = number & ((1 << self.bits) - 1), bool(number >> self.bits) if scored else None
        if self.name != "index":
            return np.array([code >> i & 1 for i in range(self.bits)], bool), score_bit
        check(code < self.size, f"report: number {code} of a code of {self.size}")
        return code, score_bit
