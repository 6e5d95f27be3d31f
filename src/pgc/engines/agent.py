"""One private agent of a simulation: steps 2 and 3.

An agent takes a delivery and returns a submission. Only the report and the noisy boolean of a
submission leave the agent; the score and the steps are the experimenter's view.
"""

from __future__ import annotations

from typing import Any

import jax

from pgc.errors import BudgetSpent
from pgc.local_training.definition import LocalTraining, draw_psi, play
from pgc.numerics.randomness import Address
from pgc.randomise.simulated import Randomiser, randomise_score, simulate_report, words_for_report
from pgc.wire.values import Delivery, Submission


class Agent:
    """A private agent: its own ψ, and a budget of T submissions that it enforces itself."""

    def __init__(self, training: LocalTraining, randomiser: Randomiser, first: Address) -> None:
        self._training, self._randomiser = training, randomiser
        self._psi = draw_psi(first, training.population)
        self._submitted = 0

    @property
    def spent(self) -> bool:
        """Whether the whole budget is used."""
        return self._submitted >= self._randomiser.submissions_per_agent

    def answer(self, delivery: Delivery, alpha: jax.Array, at: Address) -> Submission:
        """Plays the delivered θ, computes one gradient, and returns it randomised.

        Raises `BudgetSpent` once the budget is spent.
        """
        if self.spent:
            raise BudgetSpent(
                f"this agent has made its {self._randomiser.submissions_per_agent} submission(s) "
                "and spent "
                "its budget; ask another"
            )
        self._submitted += 1
        submission: Submission = _submission(
            self._training, self._randomiser, delivery, self._psi, at, alpha
        )
        return submission


@jax.jit
def _submission(
    training: LocalTraining,
    randomiser: Randomiser,
    delivery: Delivery,
    psi: Any,
    at: Address,
    alpha: jax.Array,
) -> Submission:
    played = play(training, delivery, psi, at, alpha)  # 2 local training
    # 3 randomise
    report = simulate_report(
        randomiser, delivery.basis, played.coordinates, *words_for_report(randomiser, at)
    )
    bit = randomise_score(randomiser, played.score >= training.world.score_threshold, at)
    return Submission(report, bit, played.score, played.ticks)
