"""(c) Membership: did this device take part in a round, where a relay hides who did?"""

from __future__ import annotations

import math

import numpy as np

from pgc.config import configure
from pgc.config.problem import build
from pgc.robber.effort import Effort
from pgc.robber.game import Attack, Game
from pgc.robber.homes import first_theta, play_homes, reports

ROUND = 10
DRAWS, QUICK_DRAWS = 20, 10
"""How often all homes are asked, each time with noise of its own and in rounds of their own."""


def attack(effort: Effort) -> Attack:
    """Plays rounds of ten reports: in one half of them the target is one of the ten."""
    problem = build(configure(epsilon=1.0))
    theta = first_theta(problem, effort.seed)
    homes = play_homes(problem, theta, effort.of(4000, 1500), 2 * effort.seed + 1)
    rng = np.random.default_rng(effort.seed)
    rounds, draws = len(homes.steps) // (ROUND + 1), effort.of(DRAWS, QUICK_DRAWS)
    # each report is in one round alone, so that games are independent: ten homes and the target
    those = [rng.permutation(len(homes.steps))[: rounds * (ROUND + 1)] for _ in range(draws)]
    groups = np.concatenate(those).reshape(draws, rounds, ROUND + 1)
    taking_part, target = groups[..., :ROUND].copy(), groups[..., ROUND]
    present = rng.random(target.shape) < 0.5
    taking_part[..., 0] = np.where(present, target, taking_part[..., 0])
    plain = homes.gradients.T
    exact = (plain[taking_part] == plain[target][..., None, :]).all(axis=3).any(axis=2)
    games = [
        Game.counted(exact == present, arm="no noise", epsilon=math.inf, breaks=True),
    ]
    directions = plain / np.maximum(np.linalg.norm(plain, axis=1, keepdims=True), 1e-30)
    for epsilon in effort.some_epsilons:
        noisy = build(configure(epsilon=epsilon))
        told = np.stack(
            [
                np.einsum("nrk,nk->n", reports(noisy, homes, again)[part], directions[aim])
                for again, (part, aim) in enumerate(zip(taking_part, target, strict=True))
            ]
        )
        half = draws // 2
        threshold = np.median(told[:half])
        guesses = told[half:] > threshold
        games.append(Game.counted(guesses == present[half:], arm="index", epsilon=epsilon))
    return Attack(
        name="membership",
        title="Was it there?",
        adversary="It sees the ten reports of a round, mixed by a relay, and knows everything "
        "about one device, even the gradient that it computed.",
        secret="Whether that device is among the ten, or somebody else in its place.",
        works="It adds up how well each of the ten reports agrees with the gradient that it knows, "
        "and says yes if the sum is above its usual value. Without noise it looks for the gradient "
        "itself.",
        limit="e^ε/(e^ε + 1), as if it saw the one report alone; mixing only helps the device. "
        "Without a relay, participation is visible, and not protected.",
        games=tuple(games),
    )
