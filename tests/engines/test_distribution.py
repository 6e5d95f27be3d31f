"""The engine against an independent implementation of the printed algorithm (NumPy on the real Gymnasium), in distribution.

The two share no code and no random numbers; what they must share is the law of the scores and of where θ goes.
"""

import numpy as np
import pytest
from scipy import stats

from pgc.bench import numpy_loop
from pgc.bench.common import Settings
from pgc.config import configure
from pgc.config.problem import build
from pgc.engines.compiled_simulation import CompiledSimulation
from tests.conftest import more

TRIALS, SUBMISSIONS = 60, 120
LEVEL = 1e-3 / 4  # four looks at each case


def engine_trials(**settings):
    config = configure(
        preset="paper", trials=TRIALS, submissions=SUBMISSIONS, seed=11, **settings,
    )  # fmt: skip
    simulation = CompiledSimulation(build(config))
    first = simulation.aggregator_field("theta")
    scores = np.zeros((TRIALS, SUBMISSIONS))
    while simulation.running:
        for happened in simulation.advance():
            scores[happened.trial, happened.n - 1] = happened.score
    return scores, np.linalg.norm(simulation.aggregator_field("theta") - first, axis=1)


def numpy_trials(mechanism, epsilon, clip, buffer_size):
    runs = [
        numpy_loop.run(
            Settings(
                mechanism=mechanism,
                epsilon=epsilon,
                clip=clip,
                buffer_size=buffer_size,
                seed=1000 + i,
                submissions=SUBMISSIONS,
            )
        )
        for i in range(TRIALS)
    ]
    return np.array([r.scores for r in runs]), np.array([np.linalg.norm(r.moved) for r in runs])


def alike(ours, theirs):
    (scores, moved), (their_scores, their_moved) = ours, theirs
    looks = [
        stats.ks_2samp(scores[:, :20].mean(axis=1), their_scores[:, :20].mean(axis=1)),
        stats.ks_2samp(scores[:, 20:].mean(axis=1), their_scores[:, 20:].mean(axis=1)),
        stats.ks_2samp(scores.std(axis=1), their_scores.std(axis=1)),
        stats.ks_2samp(moved, their_moved),
    ]
    return all(look.pvalue > LEVEL for look in looks)


CASES = {
    "laplace": dict(mechanism="laplace", epsilon=1.0, clip=0.01, buffer_size=1),
    "prs": dict(mechanism="prs", epsilon=1.0, clip=1.0, buffer_size=10),
    "no noise": dict(mechanism="none", epsilon=np.inf, clip=0.1, buffer_size=1),
}


@pytest.mark.parametrize("case", ["laplace", *more("prs", "no noise")])
def test_the_engine_follows_the_law_of_the_printed_algorithm(case):
    theirs = numpy_trials(**CASES[case])
    assert alike(engine_trials(**CASES[case]), theirs)
    if case == "laplace":  # a fifth more of C would be noticed
        assert not alike(
            engine_trials(**{**CASES[case], "clip": CASES[case]["clip"] * 1.2}), theirs
        )
