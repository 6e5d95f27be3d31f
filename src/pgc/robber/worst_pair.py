"""(b) with the exact likelihood ratio: the two gradients that a mechanism tells apart best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pgc.privacy.audit.events import strongest
from pgc.privacy.audit.paths import SIMULATED, source
from pgc.randomise.mechanisms.base import Mechanism
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game

MECHANISMS = ("laplace", "prs", "index")
DIM = 6

Maker = Callable[[str, float], Mechanism]
"""Makes a mechanism by its name, that claims this ε."""


def honest(name: str, epsilon: float) -> Mechanism:
    """Returns a mechanism of pgc."""
    return make_mechanism(name, dim=DIM, epsilon=epsilon, clip=1.0)


def attack(effort: Effort, make: Maker = honest) -> Attack:
    """Plays the game with each mechanism at each ε."""
    games = [
        game(make(name, epsilon), epsilon, effort)
        for name in MECHANISMS
        for epsilon in effort.some_epsilons
    ]
    return Attack(
        name="pair",
        title="The worst two gradients",
        adversary="It knows the mechanism, the public seed, and both gradients exactly.",
        secret="Which of two gradients a report is about: of all pairs, the two that this "
        "mechanism tells apart best.",
        works="The exact likelihood ratio of the mechanism names the outputs that are e^ε times "
        "as likely for one gradient as for the other. On those the robber bets, and passes on all "
        "others. No attack on one report can do better, so this one touches the ceiling.",
        limit="e^ε/(e^ε + 1) of the bets. A mechanism that leaks 2ε would be right in "
        "e^2ε/(e^2ε + 1) of them.",
        games=tuple(games),
    )


def game(mechanism: Mechanism, claim: float, effort: Effort) -> Game:
    """Plays with one mechanism, against the ε that is claimed for it."""
    event = strongest(mechanism)
    assert event is not None
    draw = source(mechanism, SIMULATED, np.random.default_rng(effort.seed))
    count = effort.of(120_000, 30_000)
    bets = [
        int(event.happened(draw(gradient, event.number, count)).sum())
        for gradient in (event.one, event.other)
    ]
    right = np.arange(sum(bets)) < bets[0]
    return Game.counted(right, arm=mechanism.name, epsilon=claim)
