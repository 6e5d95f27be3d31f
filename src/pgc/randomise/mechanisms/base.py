"""The base class of mechanisms. A mechanism Q randomises a gradient; it is a guarantee and a few
pure functions.

    prepare(gradient, public) -> thresholds   deterministic: sanitise, clip, project
    draw(thresholds, secret)  -> code         the only random step
    decode(code, public)      -> vector       on the aggregator
    error(norm)               -> number       its expected squared error, in closed form

`thresholds` are whatever the random step needs to know of the gradient: numbers that secret words
are compared with, a set of vectors, or a direction.

A mechanism holds everything that is particular to it, so that one file is enough to add one.
Besides these functions, that is its default clip, its form on the wire (`wire_number`, `to_wire`,
`pack`), how it is released (`exact_code`), the event that reveals most about a gradient (`event`),
and descriptions for people (`parameters`, `in_words`). Each of these has a default, so that a
mechanism for simulations need not define any.

`public` and `secret` are arrays of uniform 32-bit words; there is no other randomness.
In a simulation each has an address (`numerics/randomness.py`); on a device the secret ones come
from the operating system and the public ones from a hash of the offer. The functions work on NumPy
and JAX arrays alike (the array-API standard), so one source serves both, and a device needs no JAX.

Public words never depend on the gradient. ε-LDP holds for every value of them, so a hostile choice
can hurt utility only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.exact.words import public_words, secret_words
from pgc.randomise.mechanisms.forms import Event, WireForm

SMALLEST_CLIP = 1e-30
SMALLEST_EPSILON = 1e-4
Array = Any
"""A NumPy or JAX array."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a report promises. In local privacy, *any* two inputs are neighbours."""

    epsilon: float
    """The ε that really holds: the supremum, over any two gradients and any output, of the log of
    the ratio of the output's probabilities."""
    nominal_epsilon: float
    """The ε in the mechanism's formula. It is no promise where it differs from `epsilon`."""
    statement: str
    """The guarantee in words, for `privacy.json`."""

    @property
    def honest(self) -> bool:
        """Whether the nominal ε really holds."""
        return self.epsilon <= self.nominal_epsilon


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A mechanism Q(·; ε, d, d̂, C).

    `epsilon` is the nominal ε of one report; `guarantee` states the ε that holds.
    """

    name: ClassVar[str]
    largest_clip: ClassVar[float] = 1e30
    """The largest C; beyond it, float32 arithmetic would overflow."""
    traced: ClassVar[dict[str, type[np.generic]]] = {"clip": np.float32}
    """The numbers (fields or cached properties) that `prepare`, `draw` and `decode` read, and the
    type that a simulation gives each. A compiled program takes them as arguments, and so serves
    every ε and C. Everything else that these functions read (d, d̂) is a shape. They cannot read ε
    itself: it enters only through constants that were rounded to the safe side beforehand."""

    smallest_dim: ClassVar[int] = 1
    integers: ClassVar[bool] = False
    """Whether a code is drawn by comparing integers, so that nothing leaks through floating-point
    arithmetic, and codes may leave a device. Each class states it for itself, because a subclass
    of an exact mechanism need not be exact."""
    nested: ClassVar[tuple[str, ...]] = ()
    """Fields that are mechanisms themselves."""
    clips: ClassVar[bool] = True
    """Whether `clip` is used at all."""
    default_clip: ClassVar[float] = 1.0
    """The C that the default preset uses where none is given (see `clip_in`)."""
    paper_clip: ClassVar[float] = 1.0
    """C in the paper."""
    paper_buffer: ClassVar[int] = 1
    """|B| in the paper."""
    lifts: ClassVar[bool] = False
    """Whether an offer may ask for it with the norm lift."""
    wire_number: ClassVar[int | None] = None
    """The number by which an offer asks for this mechanism: below 128 for those of pgc, 128 to 255
    for others, None if no offer can. It is not inherited: a subclass has none, unless it states its
    own."""

    dim: int
    """d, the length of the gradient."""
    epsilon: float
    """ε of one report, as printed in the formula."""
    clip: float
    """C, the clipping size. Each mechanism says what it bounds."""

    def __init_subclass__(cls) -> None:
        for stated, unless in (("wire_number", None), ("integers", False), ("lifts", False)):
            if stated not in vars(cls):
                setattr(cls, stated, unless)

    def __post_init__(self) -> None:
        """Raises an error for parameters with which no guarantee can be stated."""
        if not self.epsilon > 0:
            raise PgcError(
                f"epsilon must be greater than 0 (inf for no privacy), not {self.epsilon:g}"
            )
        # The float of 10⁵ nano-ε may lie just below 10⁻⁴.
        if self.epsilon < SMALLEST_EPSILON * (1 - 1e-12):
            raise PgcError(
                f"epsilon of one report must be at least {SMALLEST_EPSILON:g}, not "
                f"{self.epsilon:g}: the report would be all noise"
            )
        if not SMALLEST_CLIP <= self.clip <= self.largest_clip:
            raise PgcError(
                f"clip must be between {SMALLEST_CLIP:g} and {self.largest_clip:g} for "
                f"{self.name}, not {self.clip:g}"
            )
        if self.dim < self.smallest_dim:
            raise PgcError(
                f"{self.name} needs a gradient of at least {self.smallest_dim} dimension(s), not "
                f"{self.dim}"
            )

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What a report of this mechanism promises."""

    @property
    @abstractmethod
    def secret_words(self) -> int:
        """How many secret 32-bit words `draw` uses."""

    @property
    def public_words(self) -> int:
        """How many public 32-bit words `prepare` and `decode` use."""
        return 0

    @abstractmethod
    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns the thresholds for `draw`: all that happens to a gradient before the random step.

        It is deterministic, and defined for every input.
        """

    @abstractmethod
    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws the code, which is what is sent."""

    @abstractmethod
    def decode(self, code: Array, public: Array) -> Array:
        """Returns g̃, the aggregator's estimate from a code. It is post-processing."""

    @classmethod
    def clip_in(cls, directions: int) -> float:
        """Returns the C that the default preset uses where none is given, for reports in a
        subspace of so many directions; 0 stands for the whole gradient.
        """
        return cls.default_clip

    @classmethod
    def fitting_clip(cls, dim: int) -> float:
        """Returns the C that suits a gradient of norm 1 in a random direction: `best` compares
        mechanisms with it.
        """
        return 1.0

    def error(self, norm: float = 1.0) -> float:
        """Returns E‖g̃ − g‖² for a gradient of this L2 norm that clipping does not change.

        It is NaN where no closed form is known.
        """
        return math.nan

    one_length: ClassVar[bool] = False
    """Whether all decoded reports have the same L2 norm, or none is longer than that."""

    @property
    def report_bytes(self) -> int:
        """The bytes that a code takes on the wire; by default a float32 for each coordinate."""
        return 4 * self.dim

    @classmethod
    def make(cls, *, dim: int, epsilon: float, clip: float, **options: Any) -> Mechanism:
        """Returns the mechanism for the settings of a run.

        Mechanisms that have options of their own (see `make_mechanism`) read them here.
        """
        return cls(dim=dim, epsilon=epsilon, clip=clip)

    def simulate(self, gradient: Array, public: Array, secret: Array) -> Array:
        """Returns a decoded report for simulations, distributed as that of `randomize`.

        A mechanism may take a shortcut to it. `simulated_words` says how many words it uses.
        """
        return self.randomize(gradient, public, secret)

    @property
    def simulated_words(self) -> tuple[int, int]:
        """How many public and how many secret words `simulate` uses."""
        return self.public_words, self.secret_words

    def randomize(self, gradient: Array, public: Array, secret: Array) -> Array:
        """Returns g̃ = Q(g): prepares, draws and decodes.

        The gradient may have any shape with d entries; for d = 1 it may be a scalar.
        """
        return self.decode(self.draw(self.prepare(self.flat(gradient), public), secret), public)

    def flat(self, gradient: Array) -> Array:
        """Returns the gradient as a vector of d entries; raises an error if it has another size.

        No gradient can pass unclipped because of its shape.
        """
        if gradient.size != self.dim:
            raise PgcError(
                f"{self.name} was made for gradients of {self.dim} numbers, not of {gradient.size}"
            )
        return gradient.reshape(self.dim)

    @property
    def core(self) -> Mechanism:
        """The mechanism that draws: this one, or the one inside it."""
        return self

    @property
    def title(self) -> str:
        """The name by which a user knows it."""
        return self.name

    # Release: what may leave a device

    def refuse_release(self) -> None:
        """Raises an error unless codes may leave a device: only those drawn in integers may."""
        if not self.integers:
            raise PgcError(
                f"{self.core.name} has no exact form and is for simulation only; "
                "release with index, duchi, prs, prs-sign or laplace"
            )

    def release(self, gradient: np.ndarray, seed: bytes) -> Any:
        """Draws a code that may leave a device, or refuses. `seed` is public."""
        self.refuse_release()
        return self.exact_code(self.flat(gradient), seed)

    def exact_code(self, gradient: np.ndarray, seed: bytes) -> Any:
        """Draws a code with secret words of the operating system. Only `release` may call it."""
        thresholds = self.prepare(gradient, public_words(seed, self.public_words))
        return self.draw(thresholds, secret_words(self.secret_words))

    def decode_released(self, code: Any, seed: bytes) -> np.ndarray:
        """Returns g̃ of a code that `release` made, on the aggregator."""
        return np.asarray(self.decode(code, public_words(seed, self.public_words)))

    @property
    def release_seconds(self) -> float:
        """A release is padded to a multiple of this many seconds, where the time of a draw depends
        on its code; 0 where it does not.
        """
        return 0.0

    # Wire: how an offer asks for it, and how a code is written into a report

    def to_wire(self) -> WireForm:
        """Returns its parameters as an offer carries them."""
        assert self.wire_number is not None
        return WireForm(self.wire_number, self.clip if self.clips else 1.0)

    @classmethod
    def from_wire(cls, form: WireForm, *, dim: int, epsilon: float) -> Mechanism:
        """Returns the mechanism that an offer asks for. Refuses numbers that mean nothing to it."""
        _check(cls.clips or form.clip == 1.0, "a direction that is not lifted has no clip")
        _check(form.flags == 0, "flags are unknown")
        _check(form.size == 0, "the size must be 0 for this mechanism")
        _check(form.nearest == 0, "the number of nearest must be 0 for this mechanism")
        return cls(dim=dim, epsilon=epsilon, clip=form.clip)

    @property
    def code_bits(self) -> int:
        """The number of bits of a code in a report, which depends on the parameters alone."""
        raise NotImplementedError(f"{self.name} has no form on the wire")

    def pack(self, code: Any) -> int:
        """Returns a code as a number of `code_bits` bits; the default is for codes that are arrays
        of bits.
        """
        bits = np.atleast_1d(code)
        if bits.shape != (self.code_bits,):
            raise ValueError(f"a code of shape {bits.shape} is not one of {self.code_bits} bits")
        return sum(int(bool(bit)) << i for i, bit in enumerate(bits))

    def unpack(self, number: int) -> Any:
        """Returns the code of a number, the inverse of `pack`.

        Raises ValueError for a number that belongs to no code.
        """
        return np.array([number >> i & 1 for i in range(self.code_bits)], bool)

    # Audit and inspection

    def event(self, words: Callable[[int], np.ndarray]) -> Event | None:
        """Returns the event of the likelihood-ratio test; None if it is not known (the audit then
        searches for one).

        `words(number)` returns the public words of the offer of that number. They are held fixed: a
        guarantee must hold for every value of them, so an adversary may choose them.
        """
        return None

    def extremes(self, words: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        """Returns gradients that an audit should also compare, because this mechanism treats them
        least alike.
        """
        return []

    @property
    def parameters(self) -> list[str]:
        """Its parameters in symbols, for `pgc inspect`."""
        return [f"C = {self.clip:g}"] if self.clips else []

    def in_words(self, code: Any) -> str:
        """Says what a code is, for `pgc inspect`."""
        bits = np.atleast_1d(np.asarray(code))
        return f"{len(bits)} noisy bit(s): {''.join('1' if bit else '0' for bit in bits)}"


def _check(holds: bool, reason: str) -> None:
    if not holds:
        raise PgcError(reason)


def require_finite_epsilon(mechanism: Mechanism) -> None:
    """Raises an error at ε = ∞, for mechanisms whose formula has no limit there."""
    if math.isinf(mechanism.epsilon):
        raise PgcError(
            f"{mechanism.name} needs a finite epsilon; for no privacy use --mechanism none"
        )
