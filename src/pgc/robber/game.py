"""What a game of guessing comes to: how often the robber is right, and the most that it can be.

ε-LDP says that no output of a mechanism is more than e^ε times as likely for one input as for
another. Who guesses which of m equally likely inputs a report is about is therefore right with a
probability of at most e^ε / (e^ε + m − 1), whatever it knows and however it computes: by Bayes'
rule the likelihood of the guess is at most e^ε times that of each of the other m − 1. It is the
same where a secret fixes not the input but its distribution, because a mean of likelihoods keeps
the bound; and where the robber bets only on some outputs and passes on others.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

ERROR = 1e-5
"""The probability that the interval of one game does not hold what is true. Each attack of a whole
`pgc attack` has a few dozen games, so an honest mechanism is called broken once in thousands of
commands."""
Verdict = Literal["held", "broken", "expected", "missed", "not bounded"]


@dataclass(frozen=True, kw_only=True)
class Game:
    """A secret guessed many times from what one way of reporting reveals."""

    arm: str
    """What the robber sees, in words."""
    epsilon: float
    """ε of what it sees; ∞ where there is no noise."""
    share: float
    """The share of guesses that were right."""
    low: float
    high: float
    """An interval for the probability that a guess is right."""
    games: int
    secrets: int = 2
    """m: how many secrets are equally likely."""
    bounded: bool = True
    """Whether the ε of this game bounds it."""
    breaks: bool = False
    """Whether the robber is expected to win, because what it sees is not protected."""
    at: float | None = None
    """Its place on the x axis, if that is not ε."""

    @classmethod
    def counted(cls, right: np.ndarray, **about: Any) -> Game:
        """Returns a game of guesses that were right or not."""
        hits, games = int(np.sum(right)), int(np.size(right))
        low = float(stats.beta.ppf(ERROR / 2, hits, games - hits + 1)) if hits else 0.0
        high = float(stats.beta.ppf(1 - ERROR / 2, hits + 1, games - hits)) if hits < games else 1.0
        return cls(share=hits / games, low=low, high=high, games=games, **about)

    @property
    def chance(self) -> float:
        """The share of right guesses of a robber who sees nothing."""
        return 1 / self.secrets

    @property
    def ceiling(self) -> float | None:
        """The largest probability of a right guess that ε allows; None where it allows any."""
        if not self.bounded or self.breaks or math.isinf(self.epsilon):
            return None
        return ceiling(self.epsilon, self.secrets)

    @property
    def verdict(self) -> Verdict:
        """Broken is a bug in a mechanism; expected is what was never protected.

        Missed is an attack that should work, and does not: then it shows nothing.
        """
        if self.breaks:
            return "expected" if self.low > self.chance else "missed"
        if self.ceiling is None:
            return "not bounded"
        return "broken" if self.low > self.ceiling else "held"

    def row(self) -> dict[str, Any]:
        """Returns everything about the game, for summary.json."""
        more = {"ceiling": self.ceiling, "chance": self.chance, "verdict": self.verdict}
        return asdict(self) | more


def ceiling(epsilon: float, secrets: int = 2) -> float:
    """Returns e^ε / (e^ε + m − 1)."""
    return 1 / (1 + (secrets - 1) * math.exp(-epsilon))


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack that was made: who the robber is, what it knows, and what came of it."""

    name: str
    title: str
    adversary: str
    """Who attacks, and what it is granted."""
    secret: str
    """What it guesses: the inputs that are neighbours here."""
    works: str
    """How it works, in a paragraph."""
    limit: str
    """The ceiling, or why there is none."""
    games: tuple[Game, ...]
    axis: str = "ε of the report"

    @property
    def broken(self) -> list[Game]:
        """The games that a mechanism lost, and should not have been able to lose."""
        return [game for game in self.games if game.verdict == "broken"]
