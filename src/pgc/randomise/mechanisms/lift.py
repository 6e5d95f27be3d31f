"""The norm lift turns a mechanism for directions into one for vectors of bounded norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgc.errors import PgcError
from pgc.randomise.mechanisms.base import Array, Guarantee, Mechanism
from pgc.randomise.mechanisms.clip import clip_l2
from pgc.randomise.mechanisms.forms import LIFTED, Event, WireForm
from pgc.randomise.mechanisms.index_code import IndexCode, fewest_and_most
from pgc.randomise.mechanisms.sphere import OnSphere, far_away


@dataclass(frozen=True, kw_only=True)
class NormLift(Mechanism):
    """Clips g in L2 to R = `clip`, and reports it as the direction (ḡ/R, √(1 − ‖ḡ‖²/R²)) in d + 1
    dimensions; decoding drops the last one.

    The estimate is unbiased in the ball. Its error scales with R, not with ‖g‖.

    **Guarantee.** That of the mechanism inside: what happens before it is a function of the
    gradient, and what happens after it is post-processing.
    """

    name = "lift"
    one_length = True
    traced = {"clip": np.float32}
    nested = ("inner",)

    inner: OnSphere
    """The mechanism for directions in d + 1 dimensions."""

    def __post_init__(self) -> None:
        """Requires a mechanism for directions, with one dimension more and the same ε."""
        super().__post_init__()
        if not isinstance(self.inner, OnSphere) or self.inner.dim != self.dim + 1:
            raise PgcError(
                "the norm lift is for mechanisms that report a direction, in one dimension more"
            )
        if self.inner.epsilon != self.epsilon:
            raise PgcError(
                f"a norm lift of ε = {self.epsilon:g} cannot be put around a mechanism of "
                f"{self.inner.epsilon:g}"
            )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the mechanism inside."""
        return self.inner.guarantee

    def error(self, norm: float = 1.0) -> float:
        """Returns R²·[(a·s² + b·(d − s²))/m² − s²], s = ‖g‖/R, with the moments m, a (along) and b
        (across) of the mechanism inside.
        """
        mean, along, across = self.inner.moments
        s2 = (norm / self.clip) ** 2
        return self.clip**2 * ((along * s2 + across * (self.dim - s2)) / mean**2 - s2)

    @property
    def report_bytes(self) -> int:
        """As many bytes as the mechanism inside sends."""
        return self.inner.report_bytes

    @property
    def secret_words(self) -> int:
        """As many as the mechanism inside uses."""
        return self.inner.secret_words

    @property
    def public_words(self) -> int:
        """As many as the mechanism inside uses."""
        return self.inner.public_words

    @property
    def simulated_words(self) -> tuple[int, int]:
        """As many as the mechanism inside uses."""
        return self.inner.simulated_words

    def lifted(self, gradient: Array) -> Array:
        """Returns the unit vector in d + 1 dimensions; zero, NaN and Inf become the pole."""
        xp = gradient.__array_namespace__()
        ball = clip_l2(gradient, self.clip) / self.clip
        return xp.concat([ball, xp.sqrt(xp.maximum(1 - xp.sum(ball**2), 0.0))[None]])

    def prepare(self, gradient: Array, public: Array) -> Array:
        """Returns what the mechanism inside prepares of the lifted gradient."""
        return self.inner.prepare(self.lifted(gradient), public)

    def draw(self, thresholds: Array, secret: Array) -> Array:
        """Draws a code of the mechanism inside."""
        return self.inner.draw(thresholds, secret)

    def decode(self, code: Array, public: Array) -> Array:
        """Returns R times the first d coordinates of what is decoded inside."""
        return self.clip * self.inner.decode(code, public)[: self.dim]

    def simulate(self, gradient: Array, public: Array, secret: Array) -> Array:
        """Returns what the mechanism inside simulates for the lifted gradient, decoded."""
        return (
            self.clip
            * self.inner.simulate(self.lifted(self.flat(gradient)), public, secret)[: self.dim]
        )

    @property
    def core(self) -> Mechanism:
        """The mechanism inside, which draws."""
        return self.inner

    @property
    def title(self) -> str:
        """The name of the mechanism inside, and that it is lifted."""
        return f"{self.inner.name}, norm lift"

    def refuse_release(self) -> None:
        """Refuses what the mechanism inside refuses."""
        self.inner.refuse_release()

    def exact_code(self, gradient: np.ndarray, seed: bytes) -> Any:
        """Draws a code of the lifted gradient, as the mechanism inside does."""
        return self.inner.exact_code(self.lifted(gradient), seed)

    def decode_released(self, code: Any, seed: bytes) -> np.ndarray:
        """Returns R times the first d coordinates of what the mechanism inside decodes."""
        return np.asarray(self.clip * self.inner.decode_released(code, seed)[: self.dim])

    @property
    def release_seconds(self) -> float:
        """As long as the mechanism inside takes."""
        return self.inner.release_seconds

    def to_wire(self) -> WireForm:
        """Returns the form of the mechanism inside, with R and the flag of a lift."""
        inside = self.inner.to_wire()
        return inside._replace(clip=self.clip, flags=inside.flags | LIFTED)

    @property
    def code_bits(self) -> int:
        """As many as the mechanism inside needs."""
        return self.inner.code_bits

    def pack(self, code: Any) -> int:
        """Packs a code as the mechanism inside does."""
        return self.inner.pack(code)

    def unpack(self, number: int) -> Any:
        """Unpacks a code as the mechanism inside does."""
        return self.inner.unpack(number)

    def event(self, words: Callable[[int], np.ndarray]) -> Event | None:
        """Returns the event for opposite gradients at the clip: lifted, they are still opposite."""
        return (
            self.inner.opposite(far_away(self), words, self.prepare)
            if self.inner.integers
            else None
        )

    def extremes(self, words: Callable[[int], np.ndarray]) -> list[np.ndarray]:
        """Returns the extremes of the mechanism inside, which sees a lifted gradient."""
        return fewest_and_most(self, words(0)) if isinstance(self.inner, IndexCode) else []

    @property
    def parameters(self) -> list[str]:
        """R, and the parameters of the mechanism inside."""
        return [f"C = {self.clip:g}", *self.inner.parameters, "lifted"]

    def in_words(self, code: Any) -> str:
        """Says it as the mechanism inside does."""
        return self.inner.in_words(code)
