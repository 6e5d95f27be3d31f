"""The fast engine against its oracle, and the promise that a trial does not depend on its neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.config import TrainConfig, configure
from pgc.config.problem import build
from pgc.deliver.initial import Initial, initial_theta
from pgc.engines import compiled, reference
from pgc.engines.backend import batch_key
from pgc.engines.compiled_simulation import CPU_LANES, CompiledSimulation
from pgc.local_training.definition import draw_psi, play_episode
from pgc.local_training.estimators.loss import gradient
from pgc.numerics.randomness import address
from tests.conftest import PAPER_NET, more, paper_problem


def small(**settings):
    return build(
        configure(**{"workers": 3, "buffer_size": 3, "submissions": 12, "trials": 1, **settings})
    )


CASES = {
    "laplace, as printed": paper_problem(workers=9),
    "prs, several episodes, greedy score, T = 2, score bit, trimmed and bounded": paper_problem(
        mechanism="prs", epsilon=12.0, score_epsilon=2.0, submissions_per_agent=2, clip=1.0, action="sampled", local_episodes=2,
        score="greedy", standardize="scale", reduction="mean", bootstrap="timeout", workers=3, buffer_size=3, max_staleness=1,
        uses_per_report=2, average_from=0.5, trim=0.34, report_norm=5.0,
    ),
    "index in a linear subspace, evolution, local baseline, cap": small(epsilon=2.0, local_episodes=3, estimator="evolution"),
}  # fmt: skip
MORE_CASES = {
    "no privacy, end reward, sampled": paper_problem(
        epsilon=np.inf, clip=1.0, action="sampled", reward="end", bootstrap="zero", workers=4
    ),
    "privunit in a quadratic subspace, policy gradient": small(
        mechanism="privunit", subspace="quadratic", local_episodes=2, estimator="policy-gradient", buffer_size=2
    ),
    "pendulum, continuous actions, norm lift": small(world="pendulum", mechanism="duchi", lift=True, local_episodes=2),
    "mountain car, evolution of the whole of θ": small(
        world="mountain-car", subspace="full", local_episodes=2, estimator="evolution", hidden=(3,)
    ),
}  # fmt: skip


def run_engine(engine, seeds, most=64):
    lanes = seeds.shape[-1]
    engine = compiled.in_lanes(engine, lanes)
    state, records = engine.start(seeds, jnp.ones(lanes, bool)), []
    while bool(state.running.any()):
        state, record = engine.advance(state, most)
        records.append([np.asarray(r) for r in record])
    return state, compiled.Record(*(np.concatenate(r) for r in zip(*records, strict=True)))


@pytest.mark.parametrize("case", [*CASES, *more(*MORE_CASES)])
def test_the_fast_engine_is_the_simple_loop(case):
    problem = (CASES | MORE_CASES)[case]
    # The basis of a subspace is a solution of linear equations in float32, and rounds more: to fewer digits.
    submissions, loose = (
        problem.config.submissions,
        500 if problem.deliverer.subspace or problem.aggregator.cap else 1,
    )
    seeds = compiled.trial_seeds(0, np.arange(32))
    state, records = run_engine(compiled.engine_of(problem), seeds)
    for trial in (0, 7):
        oracle = reference.run(problem, seed=seeds[:, trial])
        when = records.arrived[:, trial]
        assert when.sum() == submissions
        np.testing.assert_allclose(
            records.score[when, trial], oracle.scores, rtol=0 if loose == 1 else 1e-4
        )
        assert np.array_equal(records.ticks[when, trial], oracle.steps)
        assert np.array_equal(records.staleness[when, trial], oracle.staleness)
        assert np.array_equal(records.ends[when, trial], oracle.ticks)
        assert np.array_equal(records.bit[when, trial], oracle.bits)
        for name in ("theta", "average", "buffer") if loose == 1 else ("theta", "average"):
            ours = np.asarray(getattr(state.aggregator, name)[..., trial])
            np.testing.assert_allclose(
                ours, getattr(oracle.state, name), rtol=2e-4, atol=2e-6 * loose
            )
        for name in ("version", "received", "buffer_count", "discarded", "averaged"):
            assert int(getattr(state.aggregator, name)[trial]) == int(getattr(oracle.state, name))
    assert records.staleness[records.arrived].max() > 0


def test_how_often_the_host_looks_does_not_change_a_bit():
    engine = compiled.engine_of(CASES["laplace, as printed"])
    seeds = compiled.trial_seeds(0, np.arange(32))
    thetas = [run_engine(engine, seeds, most)[0].aggregator.theta for most in (7, 64)]
    assert np.array_equal(*thetas)


def scores_of(trials):
    simulation = CompiledSimulation(
        build(configure(preset="paper", submissions=60, trials=trials, seed=5))
    )
    scores = np.zeros((trials, 60))
    while simulation.running:
        for happened in simulation.advance():
            scores[happened.trial, happened.n - 1] = happened.score
    return scores, simulation.aggregator_field("theta")


def test_trial_i_is_the_same_alone_or_beside_others():
    everyone, thetas = scores_of(180)
    assert everyone.shape == (180, 60)
    for trials in (1, 20):
        some, their_thetas = scores_of(trials)
        assert np.array_equal(some, everyone[:trials])
        assert np.array_equal(their_thetas, thetas[:trials])
    assert len({row.tobytes() for row in thetas}) == 180
    assert 180 > CPU_LANES > 20


def test_cells_that_differ_in_numbers_alone_share_one_program_and_stay_what_they_were_alone():
    cells = [
        dict(epsilon=1.0),
        dict(epsilon=8.0, control=True),
        dict(clip=0.3, buffer_size=7, submissions=40, seed=9),
    ]
    problems = [
        build(configure(preset="paper", **{"submissions": 60, "trials": 5, "seed": 5, **cell}))
        for cell in cells
    ]
    assert len({batch_key(problem) for problem in problems}) == 1
    together = CompiledSimulation(*problems)
    alone = [CompiledSimulation(problem) for problem in problems]
    for simulation in (together, *alone):
        while simulation.running:
            list(simulation.advance())
    for name in ("theta", "received", "version", "buffer"):
        assert np.array_equal(
            together.aggregator_field(name),
            np.concatenate([s.aggregator_field(name) for s in alone]),
        )
    assert together.aggregator_field("received").tolist() == [60] * 10 + [40] * 5
    others = [
        dict(reward="end"),
        dict(mechanism="prs"),
        dict(mechanism="laplace-coordinatewise"),
        dict(workers=3),
    ]
    assert batch_key(problems[0]) not in {
        batch_key(build(configure(preset="paper", **cell))) for cell in others
    }


def test_prs_of_one_reduced_dimension_is_one_program():
    problems = [
        build(configure(preset="paper", mechanism="prs", epsilon=e)) for e in (1.0, 2.0, 5.0, 10.0)
    ]
    programs = [batch_key(problem) for problem in problems]
    assert programs[0] == programs[1] and len(set(programs)) == 3  # d̂ = 1, 1, 2, 4


def test_a_trial_that_is_stopped_leaves_the_others_as_they_were():
    config = configure(preset="paper", submissions=400, trials=40, seed=5)
    stopped, whole = CompiledSimulation(build(config)), CompiledSimulation(build(config))
    stopped.stop(range(38))
    for simulation in (stopped, whole):
        while simulation.running:
            list(simulation.advance())
    assert stopped.aggregator_field("received").tolist() == [0] * 38 + [400] * 2
    assert np.array_equal(
        stopped.aggregator_field("theta")[38:], whole.aggregator_field("theta")[38:]
    )


def test_a_stopped_trial_stops_for_good():
    config = TrainConfig(
        mechanism="none", epsilon=np.inf, score_epsilon=5.0, stop_rate=0.3, stop_window=20, submissions=300, trials=3,
        local_episodes=2, estimator="policy-gradient", learning_rate=2.0, buffer_size=10, seed=3,
    )  # fmt: skip
    problem = build(config)
    simulation = CompiledSimulation(problem)
    bits = np.zeros((3, 300), bool)
    while simulation.running:
        for happened in simulation.advance():
            bits[happened.trial, happened.n - 1] = happened.bit
    received = simulation.aggregator_field("received")
    assert (received < 300).any()
    score_bit = problem.randomiser.score_bit
    for trial in range(3):  # the stop is a function of the bits alone
        rates = score_bit.success_rate(
            bits[trial].reshape(15, 20).sum(axis=1), 20
        ) - 2 * score_bit.deviation(20)
        stops = np.flatnonzero(rates > 0.3)
        assert received[trial] == (20 * (stops[0] + 1) if len(stops) else 300)


@pytest.mark.more
def test_without_noise_the_engine_is_clipped_sgd_exactly():
    """One worker, |B| = 1, ε = ∞: θ_n = θ_{n−1} − η·clip(g_n), each g_n from the loss on the episode that was played."""
    problem = paper_problem(epsilon=np.inf, clip=0.5, workers=1, submissions=5)
    training, learning_rate = problem.training, 0.5
    seeds = compiled.trial_seeds(2, np.arange(32))
    state, records = run_engine(compiled.engine_of(problem), seeds)
    assert records.staleness[records.arrived].max() == 0  # with one worker nothing is stale
    theta = initial_theta(seeds[:, 0], PAPER_NET, Initial("glorot"))

    @jax.jit
    def gradient_at(theta, at, alpha):
        episode = play_episode(
            training, theta, draw_psi(at, training.population), at, 0, 0, alpha, True
        )
        return gradient(theta, [episode], PAPER_NET, training.estimator.loss, training.world)

    for n in range(5):
        g = gradient_at(theta, address(seeds[:, 0], 0, n, 1, 1), max(0.0, 0.5 - n / 1800))
        theta = theta - learning_rate * g / max(1.0, float(jnp.abs(g).sum()) / 0.25)
    np.testing.assert_allclose(state.aggregator.theta[:, 0], theta, rtol=1e-5, atol=1e-7)
