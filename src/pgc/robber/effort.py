"""How much the robber does: in a whole attack, or in a quick look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Sizes of the samples of all attacks."""

    seed: int
    quick: bool = False
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0)

    def of(self, whole: int, quick: int) -> int:
        """Returns one of two sizes."""
        return quick if self.quick else whole

    @property
    def some_epsilons(self) -> tuple[float, ...]:
        """The values of ε; fewer in a quick look."""
        return (1.0, 5.0) if self.quick else self.epsilons
