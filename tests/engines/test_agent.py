import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.config import configure
from pgc.config.problem import build
from pgc.engines.agent import Agent
from pgc.errors import BudgetSpent
from pgc.local_training.definition import draw_psi, play_episode
from pgc.local_training.estimators.loss import gradient
from pgc.numerics.randomness import address, trial_seed
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.wire.values import Delivery
from tests.conftest import PAPER_NET, paper_problem

SEED = trial_seed(0, 0)


@pytest.mark.parametrize("submissions", [1, 3])
def test_after_its_t_submissions_an_agent_refuses(submissions):
    problem = paper_problem(submissions_per_agent=submissions)
    agent = Agent(problem.training, problem.randomiser, address(SEED, 0, 0, 1, submissions))
    for i in range(submissions):
        agent.answer(
            Delivery(jnp.zeros(112), None), jnp.zeros(()), address(SEED, 0, i, 1, submissions)
        )
    assert agent.spent
    with pytest.raises(BudgetSpent, match="spent its budget"):
        agent.answer(
            Delivery(jnp.zeros(112), None),
            jnp.zeros(()),
            address(SEED, 0, submissions, 1, submissions),
        )


def test_an_agent_keeps_its_psi_over_all_its_submissions():
    population = paper_problem().training.population
    where = [
        address(SEED, worker, i, 3, submissions_per_agent=4)
        for worker in range(3)
        for i in range(12)
    ]
    agents = [int(a.agent) for a in where]
    assert len(set(agents)) == 9 and all(agents.count(a) == 4 for a in agents)
    assert len({int(a.submission) for a in where}) == 36
    by_agent = {}
    for a in where:
        by_agent.setdefault(int(a.agent), set()).add(float(draw_psi(a, population).gravity))
    assert all(len(gravities) == 1 for gravities in by_agent.values())
    assert len(set.union(*by_agent.values())) == 3


def test_without_noise_the_report_is_the_clipped_gradient_of_the_episode():
    problem = paper_problem(epsilon=np.inf, clip=0.5)
    training, theta = problem.training, PAPER_NET.init(jax.random.key(3))
    at = address(SEED, 0, 0, 1, submissions_per_agent=1)
    sent = Agent(training, problem.randomiser, at).answer(
        Delivery(theta, None), jnp.float32(0.25), at
    )
    psi = draw_psi(at, training.population)
    episode = jax.jit(lambda t: play_episode(training, t, psi, at, 0, 0, 0.25, True))(theta)
    g = np.asarray(
        jax.jit(
            lambda t: gradient(t, [episode], PAPER_NET, training.estimator.loss, training.world)
        )(theta)
    )
    assert np.abs(g).sum() > 0.25
    np.testing.assert_allclose(sent.report, g / (np.abs(g).sum() / 0.25), rtol=1e-4, atol=1e-7)
    assert float(sent.score) == int(sent.ticks) == int(episode.length)


def test_the_control_reports_noise_alone():
    at_zero = []
    for seed in (jnp.zeros(112), PAPER_NET.init(jax.random.key(1))):
        problem = paper_problem(control=True)
        at = address(SEED, 0, 0, 1, submissions_per_agent=1)
        agent = Agent(problem.training, problem.randomiser, at)
        at_zero.append(np.asarray(agent.answer(Delivery(seed, None), jnp.float32(0.5), at).report))
    assert np.array_equal(*at_zero) and at_zero[0].any()


def test_the_budget_of_one_submission_is_an_equal_share():
    problem = build(
        configure(
            preset="paper",
            mechanism="laplace",
            epsilon=2.0,
            score_epsilon=0.5,
            submissions_per_agent=3,
        )
    )
    assert problem.randomiser.mechanism == make_mechanism(
        "laplace", dim=112, epsilon=0.5, clip=0.01
    )
    assert problem.randomiser.score_bit.epsilon == pytest.approx(0.5 / 3)
    assert (problem.epsilon, problem.epsilon_gradient, problem.epsilon_score) == pytest.approx(
        (2.0, 1.5, 0.5)
    )
