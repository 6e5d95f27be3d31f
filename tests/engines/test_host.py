"""The loop on the host: the same bits whoever plays, whatever dies, and wherever it is continued; and it learns."""

import json
import os
import signal
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgc
from pgc.cli.main import main
from pgc.config import configure, to_yaml
from pgc.config.problem import build
from pgc.deliver.initial import initial_theta
from pgc.engines.crew import Processes
from pgc.engines.host import HostSimulation
from pgc.engines.jobs import Job, answers, host_policy
from pgc.errors import PgcError
from pgc.local_training.on_host import HostAgents
from pgc.numerics.projection import to_theta_space
from pgc.numerics.randomness import trial_seed
from pgc.randomise.on_host import decode
from pgc.wire.values import Task
from tests import signalled
from tests.cli.test_cli import refused
from tests.conftest import more
from tests.engines.alone import Alone
from tests.waiting import LIMIT

HERE = "tests.local_training.worlds.environments:"
SMALL = dict(
    world=HERE + "Walk", max_steps=30, threshold=25.0, submissions=40, workers=5, trials=2, eval_episodes=4,
    population=("mass=1,2,3",),
)  # fmt: skip


def problem(**settings):
    return build(configure(**{**SMALL, **settings}))


def run(made, crew):
    simulation = HostSimulation(made)
    rows = []
    while simulation.running:
        rows += [np.stack([c.astype(float) for c in h]) for h in simulation.advance(crew)]
    return simulation, _by_trial(np.concatenate(rows, axis=1))


def _by_trial(rows):
    return rows[:, np.lexsort((rows[1], rows[0]))]


def oracle(made):
    """The loop in plain Python: one agent at a time, reports in the order in which agents began."""
    config, training, aggregator = made.config, made.training, made.aggregator
    them = HostAgents(training, config.seed, host_policy(made))
    thetas, rows = [], []
    for trial in range(config.trials):
        accept, prepare = jax.jit(aggregator.accept), jax.jit(made.deliverer.prepare)
        state = jax.jit(made.start)(
            initial_theta(trial_seed(config.seed, trial), training.policy, made.initial)
        )
        at_work: deque = deque()
        begun = 0
        while int(state.received) < config.submissions:
            while len(at_work) < config.workers and begun < config.submissions:
                agent = (
                    begun // config.workers // config.submissions_per_agent * config.workers
                    + begun % config.workers
                )
                alpha = float(made.deliverer.alpha(state.received))
                basis = None if state.basis is None else np.asarray(state.basis, float)
                task = Task(trial, begun, agent, np.asarray(state.theta, float), basis, alpha)
                at_work.append((task, answers(made, them, [task])[0], state.version))
                begun += 1
            task, sent, version = at_work.popleft()
            report = jnp.asarray(
                decode(made.randomiser.mechanism, sent.code, config.seed, trial, task.submission),
                jnp.float32,
            )
            basis = None if task.basis is None else jnp.asarray(task.basis, jnp.float32)
            rows.append(
                (
                    trial,
                    task.submission + 1,
                    np.float32(sent.score),
                    sent.ticks,
                    int(state.version - version),
                    sent.bit,
                )
            )
            state = prepare(state, accept(state, jax.jit(to_theta_space)(basis, report), version))
        thetas.append(np.asarray(state.theta))
    return np.stack(thetas), np.array(rows, float).T


CASES = {
    "the default": {},
    "a policy gradient with everything": dict(
        estimator="policy-gradient", subspace="full", mechanism="prs", epsilon=5.0, local_episodes=3, alpha_start=0.5,
        score="training", score_epsilon=1.0, submissions_per_agent=2, buffer_size=3, max_staleness=1,
        optimizer="adam", baseline="critic",
    ),
    "continuous actions, a float mechanism": dict(world=HERE + "Steered", population=(), mechanism="privunit", action="sampled",
                                                  estimator="policy-gradient", local_episodes=4),
    "categories, no privacy": dict(world=HERE + "Corridor", population=(), epsilon=np.inf),
    "a control": dict(control=True),
}  # fmt: skip


MORE = ("categories, no privacy", "a control")


@pytest.mark.parametrize("case", [*(case for case in CASES if case not in MORE), *more(*MORE)])
def test_the_engine_is_its_oracle(case):
    made = problem(**{"trials": 1, "submissions": 25, **CASES[case]})
    thetas, rows = oracle(made)
    simulation, seen = run(made, Alone())
    np.testing.assert_array_equal(seen[[0, 1, 2, 3, 4, 6]], rows)
    np.testing.assert_array_equal(simulation.aggregator_field("theta"), thetas)


def test_an_answer_does_not_depend_on_what_is_asked_beside_it():
    made = problem(local_episodes=3, estimator="policy-gradient", alpha_start=0.5)
    theta = np.asarray(made.training.policy.init(jax.random.key(0), "flat"), float)
    basis = np.asarray(made.deliverer.subspace.basis(jnp.asarray(theta, jnp.float32)), float)
    tasks = [Task(i % 3, i, i, theta + 0.01 * i, basis, 0.3) for i in range(40)]

    def in_parts(size):
        them = HostAgents(made.training, 0, host_policy(made))
        return [
            sent for at in range(0, 40, size) for sent in answers(made, them, tasks[at : at + size])
        ]

    for one, together in zip(in_parts(1), in_parts(40), strict=True):
        np.testing.assert_array_equal(one.code, together.code)
        assert one[1:] == together[1:]


def test_processes_play_what_one_plays_and_a_lost_one_changes_nothing(tmp_path, monkeypatch):
    die = tmp_path / "die"
    monkeypatch.setenv("PGC_TEST_DIE", str(die))
    made = problem(world=HERE + "Dies", submissions=60)
    alone, rows = run(made, Alone())
    die.touch()
    with Processes(2) as crew:
        crowd, others = run(made, crew)
        assert crew.replaced == 1 and not die.exists()
    np.testing.assert_array_equal(crowd.aggregator_field("theta"), alone.aggregator_field("theta"))
    np.testing.assert_array_equal(others, rows)


def test_work_that_every_worker_dies_of_is_given_up():
    made = problem(world=HERE + "AlwaysDies", bounds=("0=-1:1", "1=-1:1"))
    with (
        Processes(2) as crew,
        pytest.raises(PgcError, match="3 workers were lost at the same work"),
    ):
        run(made, crew)


def test_a_simulation_continues_from_its_arrays():
    made = problem(submissions=60, score_epsilon=0.2, stop_rate=0.99)
    whole, _ = run(made, Alone())
    first, crew = HostSimulation(made), Alone()
    while first.aggregator_field("received").sum() < 30:
        first._submit_jobs(crew)
        [(ticket, sent)] = crew.results(first._jobs.keys())
        _, tasks = first._jobs.pop(ticket)
        for task, answer in zip(tasks, sent, strict=True):
            first._trials[task.trial].answers[task.submission] = answer
            first._take_reports(task.trial)
    second, crew = HostSimulation(made), Alone()
    second.restore(first.arrays())
    while second.running:
        list(second.advance(crew))
    np.testing.assert_array_equal(second.aggregator_field("theta"), whole.aggregator_field("theta"))
    with pytest.raises(PgcError, match="another configuration"):
        HostSimulation(problem(workers=6)).restore({})


def test_an_agent_stays_in_its_world():
    """T = 3 submissions of one agent have one ψ; another agent's may differ."""
    made = problem(submissions_per_agent=3, epsilon=3.0)
    them = HostAgents(made.training, 0, host_policy(made))
    tasks = [Task(0, n, n // 5 // 3 * 5 + n % 5, np.zeros(1), None, 0.0) for n in range(60)]
    by_agent = {}
    for task in tasks:
        by_agent.setdefault(task.agent, set()).add(them._psi(task))
    assert all(len(psis) == 1 for psis in by_agent.values()) and len(by_agent) == 20
    assert len({psi for psis in by_agent.values() for psi in psis}) == 3


@pytest.mark.more
def test_gymnasium_cartpole_is_learnt_under_privacy(tmp_path):
    """ε = 1, 250 reports: much longer than where it began, and than pure noise."""
    settings = dict(
        world="gymnasium:CartPole-v1",
        max_steps=200,
        threshold=195.0,
        submissions=250,
        eval_episodes=20,
    )
    learnt = pgc.train(out=tmp_path / "learnt", **settings).summary
    control = pgc.train(out=tmp_path / "control", control=True, **settings).summary
    assert learnt["averaged_score_mean"] > 120 > 80 > control["averaged_score_mean"]
    statement = json.loads((tmp_path / "learnt" / "privacy.json").read_text())
    assert statement["epsilon"] == 1.0 and statement["honest"]


def test_pictures_are_played_by_a_convolutional_policy():
    made = problem(world=HERE + "Catch", population=(), trials=1, submissions=12, epsilon=5.0)
    assert made.config.policy == "convolutional" and made.config.subspace == "linear"
    assert made.training.dim == 16 * 2  # places × what matters of three outputs
    simulation, rows = run(made, Alone())
    assert rows.shape[1] == 12 and np.isfinite(simulation.aggregator_field("theta")).all()
    with pytest.raises(PgcError, match="use --policy convolutional"):
        problem(world=HERE + "Catch", population=(), policy="actor-critic")


def test_the_commands(tmp_path, capsys):
    """Train, evaluate with a film, compare, and frontier, on a world of one's own."""
    one = tmp_path / "one"
    given = [
        "--world",
        HERE + "Walk",
        "--max-steps",
        "30",
        "--threshold",
        "25",
        "--submissions",
        "30",
        "--eval-episodes",
        "3",
    ]
    assert (
        main(["train", *given, "--population", "mass=1,2", "--processes", "1", "--out", str(one)])
        == 0
    )
    assert main(["evaluate", str(one), "--gif", "--episodes", "3", "--run-code"]) == 0
    assert (one / "episode.gif").read_bytes()[:3] == b"GIF"
    assert {"mass=1", "mass=2"} <= set(json.loads((one / "evaluation.json").read_text())["scores"])
    assert main(["compare", str(one), "--out", str(tmp_path / "compared"), "--run-code"]) == 0
    capsys.readouterr()
    assert "for worlds that play on the host" in refused(capsys, "train", "--processes", "2")
    assert "give --engine ray" in refused(capsys, "train", "--address", "127.0.0.1:1")


def test_what_fails_keeps_what_was_done(tmp_path, capsys):
    path = tmp_path / "run"
    given = [
        "--world",
        HERE + "Raises",
        "--bounds",
        "0=-1:1",
        "1=-1:1",
        "--max-steps",
        "30",
        "--submissions",
        "500",
    ]
    said = refused(capsys, "train", *given, "--processes", "1", "--json", "--out", path)
    assert "the motor is hot in step" in said and f"pgc train --resume {path} --run-code" in said
    assert (path / "checkpoint.safetensors").exists() and list((path / "metrics").glob("*.parquet"))


def test_a_killed_run_is_resumed_to_the_same_result(tmp_path):
    """SIGKILL of the driver, with workers at work; then --resume, with another number of them."""
    settings = dict(SMALL, world=HERE + "Walk", submissions=200, trials=1)
    whole = pgc.train(out=tmp_path / "whole", processes=1, **settings)
    path = tmp_path / "killed"
    flags = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in settings.items()
        if name != "population"
    ]
    flags += [
        "--population",
        *settings["population"],
        "--processes",
        "2",
        "--checkpoint-seconds",
        "0",
    ]
    driver = signalled.start("SIGKILL", "checkpoint.safetensors", 2, "train", "--out", path, *flags)
    said = driver.communicate(timeout=LIMIT)
    assert driver.returncode == -signal.SIGKILL and not (path / "summary.json").exists(), said
    again = pgc.train(resume=path, processes=1, run_code=True)
    np.testing.assert_array_equal(again.policies()["theta"], whole.policies()["theta"])
    np.testing.assert_array_equal(again.scores(), whole.scores())


def late(observation_shape, outputs):
    """A policy that fails while it plays."""
    from pgc.local_training.policies.own import from_function

    def apply(theta, observation):
        jax.debug.callback(lambda: calls.append(1) or (len(calls) > 50 and 1 / 0))
        return theta[:outputs]

    calls: list[int] = []
    return from_function(apply, np.zeros(2))


def test_a_policy_that_fails_while_it_plays_is_one_line(capsys, tmp_path):
    given = [
        "--world",
        HERE + "Walk",
        "--policy",
        "tests.engines.test_host:late",
        "--processes",
        "1",
        "--subspace",
        "full",
    ]
    assert "the policy raised" in refused(capsys, "train", *given, "--out", tmp_path / "run")


def test_workers_import_what_the_driver_imports(tmp_path, monkeypatch):
    """A file beside the user that is called like a module of Python's is not imported in its place."""
    (tmp_path / "random.py").write_text("raise SystemExit(3)")
    (tmp_path / "mine.py").write_text("from tests.local_training.worlds.environments import Walk")
    monkeypatch.chdir(tmp_path)
    run = pgc.train(
        out=tmp_path / "run",
        processes=1,
        **dict(SMALL, world="mine:Walk", submissions=10, trials=1),
    )
    assert run.complete


def test_a_world_that_cannot_be_made_for_every_psi_is_refused_before_the_work(capsys, tmp_path):
    given = ["--world", HERE + "Walk", "--population", "mass=0,1", "--out", tmp_path / "run"]
    assert "cannot be made with {'mass': 0}" in refused(capsys, "train", *given)
    assert not (tmp_path / "run").exists()
    said = refused(capsys, "train", "--world", HERE + "Walk", "--score-epsilon", "0.2")
    assert "give --threshold" in said


def test_workers_end_with_their_driver():
    crew = Processes(2)
    pids = [worker.popen.pid for worker in crew._given]
    crew.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_job_that_raises_is_told_apart_from_a_worker_that_is_lost():
    with Processes(1) as crew:
        with pytest.raises(PgcError, match="unknown world"):
            crew.do_all(
                [Job("play", (to_yaml(problem().config).replace(SMALL["world"], "nowhere"), []))]
            )
        with pytest.raises(RuntimeError, match="KeyError"):
            crew.do_all([Job("nothing", ())])
        made = problem(trials=1)
        theta = np.asarray(made.training.policy.init(jax.random.key(0), "flat"))
        psi = tuple(map(float, made.training.world.default_psi))
        [scores] = crew.do_all([Job("scores", (to_yaml(made.config), theta, psi, 3, 0))])
        assert scores.shape == (3,) and crew.replaced == 0
