"""A day of heating: the physics is the exact solution, comfort counts only while somebody is there, and it is learnt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgc
from pgc.local_training.worlds.thermostat import Thermostat, ThermostatPsi

HOME = ThermostatPsi(resistance=4.0, capacity=0.7, leaves=7.5, returns=16.0)


def day(power, psi=HOME, key=0):
    """States before each step, and rewards, of a day under a controller."""
    world = Thermostat()

    @jax.jit
    def play(psi):
        def tick(state, _):
            moved = world.step(jax.random.key(0), state, jnp.atleast_1d(power(state)), psi)
            return moved.state, (state, moved.reward)

        start = world.reset(jax.random.key(key), psi)
        return jax.lax.scan(tick, start, None, length=world.max_steps)[1]

    states, rewards = play(jax.tree.map(jnp.asarray, psi))
    return jax.tree.map(np.asarray, states), np.asarray(rewards)


def test_a_step_solves_the_equation_of_heat(x64):
    """dT/dt = ((T_o − T)/R + P)/C, with the weather and the power of the beginning of the step, in steps of a second."""
    states, _ = day(lambda state: 2.0 + state.present)
    for n in (0, 40, 70, 100):
        warm, outdoor = (
            states.indoor[n],
            states.mean_outdoor[n] + 4 * np.cos(2 * np.pi * ((states.step / 6)[n] - 15) / 24),
        )
        for _ in range(600):
            warm += (
                ((outdoor - warm) / HOME.resistance + 2.0 + states.present[n])
                / HOME.capacity
                / 3600
            )
        assert warm == pytest.approx(states.indoor[n + 1], abs=2e-3)


def test_the_power_is_what_the_heating_has():
    for asked, given in ((-3.0, 0.0), (50.0, 8.0)):
        one, _ = day(lambda state, asked=asked: asked)
        other, _ = day(lambda state, given=given: given)
        assert (one.indoor == other.indoor).all()


def test_comfort_counts_only_while_somebody_is_there():
    """ψ says when: the same temperatures, and another cost."""
    heats = lambda state: 1.5
    states, rewards = day(heats)
    there = states.present > 0
    assert not there[((states.step / 6) > 7.6) & ((states.step / 6) < 15.9)].any()
    assert there[((states.step / 6) < 7.4) | ((states.step / 6) > 16.1)].all()
    always, more = day(heats, HOME._replace(leaves=25.0))
    assert (always.indoor == states.indoor).all()
    assert rewards[~there] == pytest.approx(-0.4 * 1.5 / 6, rel=1e-5)  # energy alone
    assert (more[~there] < rewards[~there]).all() and (more[there] == rewards[there]).all()


def test_homes_differ_in_what_is_private():
    """Insulation and capacity change temperatures; hours of presence are seen by the home's own sensor alone."""
    one, _ = day(lambda state: 1.0)
    for changed in (HOME._replace(resistance=6.0), HOME._replace(capacity=1.4)):
        assert np.abs(day(lambda state: 1.0, changed)[0].indoor - one.indoor).max() > 1
    other, _ = day(lambda state: 1.0, HOME._replace(returns=19.0))
    assert (other.indoor == one.indoor).all() and (other.present != one.present).sum() == 18


@pytest.mark.more
def test_it_is_learnt_under_privacy(tmp_path):
    """Better than any constant power, which costs 120 and more a day in these homes (benchmarks/thermostat.py)."""
    run = pgc.train(
        world="thermostat", submissions=300, trials=2, eval_episodes=5, out=tmp_path / "run"
    )
    assert run.summary["averaged_score_mean"] > -60
