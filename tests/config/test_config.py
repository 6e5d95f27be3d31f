import math
from dataclasses import replace
from fractions import Fraction

import pytest

from pgc.config import PRESETS, TrainConfig, configure, from_yaml, rules, to_yaml
from pgc.config.problem import build, resolve
from pgc.errors import PgcError
from pgc.randomise.mechanisms.none import NoPrivacy
from pgc.randomise.mechanisms.registry import MECHANISMS


@pytest.mark.parametrize(
    "config",
    [
        *PRESETS.values(),
        TrainConfig(epsilon=math.inf, population=("length=0.4:0.6",), hidden=(8, 4)),
    ],
)
def test_a_config_round_trips_through_yaml(config):
    assert from_yaml(to_yaml(config)) == config
    assert from_yaml(to_yaml(resolve(config))) == resolve(config)


def test_the_papers_preset_is_the_paper():
    laplace = build(PRESETS["paper"])
    c = laplace.config
    assert (c.discount, c.learning_rate, c.value_weight, c.entropy_weight) == (0.99, 0.5, 0.5, 0.01)
    assert (c.clip, c.buffer_size, c.workers, c.submissions, c.trials) == (0.01, 1, 9, 90_000, 20)
    assert (c.action, c.alpha_start, c.alpha_decay, c.local_episodes, c.score) == (
        "argmax",
        0.5,
        1800.0,
        1,
        "training",
    )
    assert build(replace(PRESETS["paper"], local_episodes=2)).training.recipe.score == "greedy"
    assert (c.reward, c.bootstrap, c.reduction, c.standardize, c.initial) == (
        "step",
        "always",
        "sum",
        "no",
        "glorot",
    )
    assert c.population == ("gravity=9.7,9.8,9.9",)
    assert laplace.training.policy.dim == 112
    prs = build(replace(PRESETS["paper"], mechanism="prs", epsilon=5.0))
    assert (prs.config.clip, prs.config.buffer_size, prs.randomiser.mechanism.reduced_dim) == (
        1.0,
        100,
        2,
    )
    free = build(replace(PRESETS["paper"], mechanism="prs", epsilon=math.inf))
    assert (free.config.mechanism, free.config.clip, free.config.buffer_size) == ("none", 0.01, 1)
    none = build(TrainConfig(mechanism="none"))
    assert none.epsilon == none.config.epsilon == math.inf


def test_epsilon_is_the_truth():
    honest = build(TrainConfig(mechanism="laplace", epsilon=2.0, submissions_per_agent=4))
    assert honest.epsilon == pytest.approx(
        2.0
    ) and honest.randomiser.mechanism.epsilon == pytest.approx(0.5)
    not_ldp = build(TrainConfig(mechanism="laplace-coordinatewise", epsilon=2.0, subspace="full"))
    assert not_ldp.epsilon == pytest.approx(224.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(epsilon=0.0), "epsilon must be greater than 0"),
        (dict(epsilon=-3.0), "epsilon must be greater than 0"),
        (dict(epsilon=math.nan), "epsilon is not a number"),
        (dict(clip=0.0), "clip must be between"),
        (dict(clip=-1.0), "clip must be between"),
        (dict(clip=math.inf), "clip must be between"),
        (dict(mechanism="gauss"), "unknown mechanism 'gauss'"),
        (dict(mechanism="prs", reduced_dim=113, subspace="full"), "between 1 and d = 112"),
        (dict(buffer_size=0), "buffer_size must be at least 1"),
        (dict(world="chess"), "unknown world 'chess'"),
        (dict(population=("gravitation=9",)), "FIELD one of gravity"),
        (dict(workers=0), "workers must be at least 1"),
        (dict(submissions=0), "submissions must be at least 1"),
        (dict(submissions=2**30), "submissions must be fewer"),
        (dict(local_episodes=0), "local_episodes must be at least 1"),
        (dict(trials=0), "trials must be at least 1"),
        (dict(seed=2**32), "seed must be between"),
        (dict(seed=-1), "seed must be between"),
        (dict(score_epsilon=1.0), "score_epsilon is a share of epsilon"),
        (dict(score_epsilon=-0.1), "score_epsilon must be 0"),
        (dict(stop_rate=0.5), "stop_rate needs the noisy booleans"),
        (dict(stop_rate=1.5, score_epsilon=0.5), "stop_rate must be between"),
        (dict(optimizer="sdg"), "not an optimiser of optax"),
        (dict(optimizer="optax:sdg"), "cannot load optimiser 'optax:sdg'"),
        (dict(initial="zeros"), "a linear subspace moves the policy's head alone"),
        (dict(epsilon=1.0, submissions_per_agent=20_000), "epsilon of one report must be at least 0.0001"),
        (dict(mechanism="prs-sign", lift=True), "works with index, privunit, privunitg and duchi"),
        (dict(subspace="full", estimator="evolution", hidden=(64,)), "at most 256 directions, not 448"),
        (dict(optimizer="apply_updates"), "not an optimiser of optax"),
        (dict(learning_rate=0.0), "learning_rate must be greater than 0"),
        (dict(action="guess"), "action cannot be 'guess'"),
        (dict(epsilon="1"), "epsilon cannot be '1'"),
        (dict(trials=1.5), "trials cannot be 1.5"),
        (dict(population=("time_step=0",)), "greater than 0"),
        (dict(optimizer="lbfgs"), "not an optimiser of optax"),
        (dict(local_episodes=100, submissions=2_000_000), "virtual clock"),
        (dict(discount=1.5), "discount must be between"),
        (dict(average_from=1.0), "average_from must be"),
        (dict(max_staleness=-1), "max_staleness must be"),
        (dict(hidden=(0,)), "hidden widths"),
    ],
    ids=lambda v: str(v) if isinstance(v, dict) else "",
)  # fmt: skip
def test_bad_input_is_one_line_that_says_what_to_do(settings, words):
    with pytest.raises(PgcError, match=words) as caught:
        build(TrainConfig(**settings))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "a: 1", "- 1", "{", "mechanism: prs", "a: [\n b"])
def test_a_foreign_yaml_is_refused(text):
    with pytest.raises(PgcError, match=r"config\.yaml") as caught:
        from_yaml(text)
    assert "\n" not in str(caught.value)


def test_a_value_of_the_wrong_kind_in_yaml_is_refused():
    with pytest.raises(PgcError, match="epsilon cannot be 'abc'"):
        build(from_yaml(to_yaml(TrainConfig()).replace("epsilon: 1.0", "epsilon: abc", 1)))


@pytest.mark.parametrize("epsilon", [0.91, 1.0, 5.0])
@pytest.mark.parametrize("submissions", [1, 7, 23])
def test_what_an_agent_spends_is_never_more_than_the_flag_says(epsilon, submissions):
    problem = build(
        TrainConfig(
            mechanism="laplace",
            epsilon=epsilon,
            score_epsilon=0.1,
            submissions_per_agent=submissions,
        )
    )
    assert problem.randomiser.mechanism.guarantee.honest and problem.epsilon == epsilon
    of_gradient, of_score = (
        problem.randomiser.mechanism.guarantee.epsilon,
        problem.randomiser.score_bit.epsilon,
    )
    assert (Fraction(of_gradient) + Fraction(of_score)) * submissions <= Fraction(epsilon)
    assert (of_gradient + of_score) * submissions > epsilon * (1 - 2e-7)


def test_settings_by_name_start_from_the_preset_as_flags_do():
    assert configure(preset="paper", epsilon=5.0) == replace(PRESETS["paper"], epsilon=5.0)
    assert configure(trials=3) == TrainConfig(trials=3)
    with pytest.raises(PgcError, match="unknown setting"):
        configure(trails=3)
    with pytest.raises(PgcError, match="unknown preset"):
        configure(preset="nature")


def test_a_config_of_an_older_version_is_read():
    """What it does not say is what its preset does."""
    config = configure(preset="paper", epsilon=3.0)
    old = "\n".join(
        line
        for line in to_yaml(config).splitlines()
        if not line.startswith(("trim:", "report_norm:", "own_policy:"))
    )
    assert from_yaml(old) == config
    default = to_yaml(configure(epsilon=3.0)).splitlines()
    old = "\n".join(
        line for line in default if not line.startswith(("step_decay:", "report_norm:"))
    )
    read = from_yaml(old)
    assert (read.step_decay, read.report_norm) == (math.inf, math.inf)  # which was the default
    assert "step_decay" not in to_yaml(read, as_before=True)  # so that its hash is the same as then
    assert "step_decay" in to_yaml(configure(), as_before=True)


def test_rules_for_many_observations():
    """A linear policy where 16 units are too few, and a constant where 0 is no usual value."""
    assert rules.hidden(4, True) == rules.hidden(8, False) == (16,) and rules.hidden(5, True) == ()
    assert rules.constant(((-1.0, 1.0), (0.3, 1.3))) and not rules.constant(((-1.0, 0.5),))
    assert rules.spread(4 / 3) == 1.0 and rules.spread(None) == 1.0
    assert rules.spread(4 * 4 / 3) == pytest.approx(0.5)
    assert rules.step_decay(1.0, 2.0, 4) == 50 and rules.step_decay(0.5, 2.0, 8) == 400
    assert NoPrivacy.clip_in(0) == NoPrivacy.clip_in(4) == 2.0 and NoPrivacy.clip_in(25) == 5.0
    assert rules.discount(200) == rules.discount(50) == 0.99
    assert rules.discount(1000) == pytest.approx(0.998)
    config = build(configure(world="acrobot")).config
    assert (config.hidden, config.constant, config.local_episodes) == ((), False, 26)


def test_a_built_in_world_is_scaled_by_good_play_and_says_so():
    """Its config states the box, so that a service publishes it. A run of before keeps its own."""
    config = build(configure(world="acrobot")).config
    assert config.bounds is not None and config.bounds[4] == "4=-2.5:2.5"
    problem = build(from_yaml(to_yaml(config)))
    assert problem.training.recipe.bounds[4] == (-2.5, 2.5) and problem.config == config
    old = to_yaml(build(configure(world="acrobot", scales="limits")).config)
    assert "bounds: null" in old
    before = "\n".join(line for line in old.splitlines() if not line.startswith("scales:"))
    problem = build(from_yaml(before))
    assert problem.training.recipe.bounds[4] == (-4 * math.pi, 4 * math.pi)
    assert to_yaml(problem.config, as_before=True) == to_yaml(from_yaml(before), as_before=True)
    own = build(configure(world="acrobot", bounds=("5=-9:9",))).training.recipe.bounds
    assert own[5] == (-9, 9) and own[4] == (-2.5, 2.5)
    assert build(configure()).config.bounds is None  # CartPole's box is that of good play already


@pytest.mark.parametrize("lift", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_problem_built_again_from_its_own_config_is_the_same(name, lift):
    """config.yaml states what the mechanism was made with, so a run that is resumed has the same mechanism."""
    for more in ({}, {"reduced_dim": 3}, {"code_size": 16}, {"clip": 0.5}, {"preset": "paper"}):
        try:
            made = build(configure(mechanism=name, epsilon=2.0, lift=lift, **more))
        except PgcError:
            continue  # not every mechanism takes every option
        again = build(from_yaml(to_yaml(made.config)))
        assert again.config == made.config
        assert (
            again.randomiser.mechanism == made.randomiser.mechanism
            or not made.randomiser.mechanism.clips
        ), more
        one, other = (problem.randomiser.mechanism.core for problem in (again, made))
        for field in ("sampled", "reduced_dim", "code_size", "epsilon"):
            assert getattr(one, field, None) == getattr(other, field, None), (more, field)
