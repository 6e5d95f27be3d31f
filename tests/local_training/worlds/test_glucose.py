"""The compiled physiology against recorded answers of another simulator, and the day that is played with it."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgc
from pgc.local_training.worlds import physiology
from pgc.local_training.worlds.glucose import Glucose, GlucosePsi, risk

RECORDED = json.loads((Path(__file__).parent / "simglucose.json").read_text())
"""Made by benchmarks/glucose_reference.py in an environment of its own."""


@jax.jit
@jax.vmap
def ten_hours(number):
    """Glucose in plasma and under the skin of a patient, every minute, in the experiment that was recorded."""
    who = physiology.patient(number, 1.0)

    def tick(now, minute):
        meal = jnp.where(minute == 60, 60.0, jnp.where(minute == 300, 40.0, 0.0))
        times = jnp.where((minute >= 60) & (minute < 150), 3.0, 1.0)
        times = jnp.where((minute >= 400) & (minute < 420), 0.0, times)
        body, eaten = physiology.minute(who, *now, times * who.basal, meal)
        return (body, eaten), jnp.stack([body.plasma, body.skin]) / who.Vg

    return jax.lax.scan(tick, (physiology.at_rest(who), physiology.no_meal()), jnp.arange(600))[1]


def test_all_thirty_patients_are_those_of_the_other_simulator():
    ours = np.asarray(ten_hours(jnp.arange(30.0)))[:, RECORDED["every"] - 1 :: RECORDED["every"]]
    theirs = np.array(RECORDED["glucose"])
    assert ours.shape == theirs.shape and np.ptp(theirs) > 200
    np.testing.assert_allclose(ours, theirs, atol=0.3)  # mg/dl; theirs integrates by other steps


def test_at_the_basal_rate_nothing_happens():
    who = physiology.patient(3.0, 1.0)
    start = physiology.at_rest(who)
    body, _ = physiology.minute(who, start, physiology.no_meal(), who.basal, jnp.zeros(()))
    for now, before in zip(body, start, strict=True):
        assert float(now) == pytest.approx(float(before), rel=2e-5, abs=1e-5)


def play(psi, rate, key=0):
    world = Glucose()

    @jax.jit
    def day(psi, key):
        def tick(state, key):
            moved = world.step(key, state, jnp.array([rate]), psi)
            return moved.state, (moved.state, moved.reward)

        first, *keys = jax.random.split(key, world.max_steps + 1)
        return jax.lax.scan(tick, world.reset(first, psi), jnp.stack(keys))[1]

    states, rewards = day(jax.tree.map(jnp.asarray, psi), jax.random.key(key))
    return jax.tree.map(np.asarray, states), np.asarray(rewards)


def test_a_day_has_three_meals_and_insulin_lowers_glucose():
    who = GlucosePsi(patient=12.0)
    states, rewards = play(who, 1.0)
    begins = np.flatnonzero(np.diff(states.meal.eating.astype(int), prepend=0) == 1)
    hours = begins / 12
    assert len(begins) == 3
    assert all(low <= h <= low + 3.1 for h, low in zip(hours, (6, 11, 17), strict=True))
    grams = states.meal.eaten[-1]
    weight = physiology.table()[physiology.Patient._fields.index("BW"), 12]
    assert 0.3 * weight <= grams <= 0.9 * weight
    more, _ = play(who, 1.6)
    assert (more.body.plasma[60:] < states.body.plasma[60:]).all()
    weaker, _ = play(who._replace(sensitivity=0.8), 1.0)
    assert weaker.body.plasma.mean() > states.body.plasma.mean()
    assert play(who, -3.0)[0].on_board[-1] == pytest.approx(play(who, 0.0)[0].on_board[-1])
    assert rewards.sum() < 100


def test_the_risk_is_kovatchevs():
    """Zero at 112.5 mg/dl, and symmetrical: as large at 70 as at 180, nearly."""
    assert float(risk(jnp.asarray(112.5))) == pytest.approx(0, abs=1e-3)
    for ten in (65.6, 192.0):
        assert float(risk(jnp.asarray(ten))) == pytest.approx(10, abs=0.1)
    assert float(risk(jnp.asarray(20.0))) == pytest.approx(100, abs=1)
    assert float(risk(jnp.asarray(600.0))) == pytest.approx(100, abs=1)
    assert float(risk(jnp.asarray(70.0))) == pytest.approx(
        float(risk(jnp.asarray(180.0))), rel=0.05
    )


@pytest.mark.more
def test_it_is_learnt_under_privacy(tmp_path):
    """Better than a constant basal rate, which scores 28 in these homes (benchmarks/glucose.py)."""
    run = pgc.train(world="glucose", submissions=200, trials=2, eval_episodes=1, out=tmp_path / "r")
    assert run.summary["averaged_score_mean"] > 50
