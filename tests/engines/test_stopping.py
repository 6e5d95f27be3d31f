"""The stopping rule reads the noisy booleans of a whole window, and nothing else."""

import jax.numpy as jnp
import numpy as np

from pgc.engines.stopping import StoppingRule, Window
from pgc.randomise.mechanisms.score_bit import ScoreBit

RULE = StoppingRule(ScoreBit(epsilon=3.0), rate=0.5, window=50)


def test_a_full_window_of_successes_stops_and_one_of_few_does_not():
    nearly = jnp.full(3, 49)
    seen = Window(nearly, jnp.asarray([49, 20, 49]))
    arrived = jnp.asarray([True, True, False])
    after, stop = RULE.watch(seen, jnp.ones(3, bool), arrived)
    assert stop.tolist() == [True, False, False]
    assert after.reports.tolist() == [0, 0, 49] and after.ones.tolist() == [0, 0, 49]


def test_plain_numbers_and_arrays_follow_the_same_rule():
    bits = np.random.default_rng(0).random(400) < np.linspace(0.2, 1.0, 400)
    alone, lanes, stops = Window(0, 0), Window(jnp.zeros(1, int), jnp.zeros(1, int)), []
    for bit in bits.tolist():
        alone, stop = RULE.watch(alone, bit, True)
        lanes, also = RULE.watch(lanes, jnp.asarray([bit]), jnp.asarray([True]))
        assert bool(stop) == bool(also[0])
        assert (alone.reports, alone.ones) == (int(lanes.reports[0]), int(lanes.ones[0]))
        stops.append(bool(stop))
    assert any(stops) and not stops[49]  # the first window has few successes
