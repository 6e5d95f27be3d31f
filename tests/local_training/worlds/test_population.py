import collections

import jax
import numpy as np
import pytest

from pgc.errors import PgcError
from pgc.local_training.worlds.cartpole import CartPole
from pgc.local_training.worlds.population import Population
from pgc.local_training.worlds.registry import make_world

WORLD = CartPole()


def test_the_papers_population_is_uniform_over_three_gravities():
    population = Population.parse(WORLD, WORLD.default_population)
    draws = jax.vmap(population.draw)(jax.random.split(jax.random.key(0), 9000))
    counts = collections.Counter(np.round(np.asarray(draws.gravity), 4).tolist())
    assert sorted(counts) == pytest.approx([9.7, 9.8, 9.9], abs=1e-4)
    assert all(abs(c - 3000) < 180 for c in counts.values())  # four standard deviations
    assert np.all(draws.length == np.float32(0.5))
    assert [psi.gravity for psi in population.grid()] == [9.7, 9.8, 9.9]


def test_ranges_and_lists_combine():
    population = Population.parse(WORLD, ["length=0.25:0.75", "gravity=5,15"])
    draws = jax.vmap(population.draw)(jax.random.split(jax.random.key(0), 4000))
    assert 0.25 <= draws.length.min() < 0.255 and 0.745 < draws.length.max() <= 0.75
    assert abs(np.corrcoef(draws.length, draws.gravity)[0, 1]) < 0.07
    assert len(population.grid()) == 6
    psi = WORLD.default_psi
    assert population.contains(psi._replace(length=0.3, gravity=5)) and not population.contains(
        psi._replace(length=0.3)
    )
    assert not population.contains(psi._replace(length=0.8, gravity=5))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gravitation=9.8", "one of gravity"),
        ("gravity", "FIELD=v1"),
        ("gravity=heavy", "must be numbers"),
        ("gravity=3:1", "low < high"),
        ("gravity=nan", "finite"),
        ("time_step=0,0.02", "greater than 0"),
        ("cart_mass=-1:1", "greater than 0"),
    ],
)
def test_a_bad_variation_says_what_to_write(text, words):
    with pytest.raises(PgcError, match=words):
        Population.parse(WORLD, [text])


def test_a_field_is_named_once():
    with pytest.raises(PgcError, match="twice"):
        Population.parse(WORLD, ["gravity=9", "gravity=10"])


def test_an_unknown_world_lists_the_known():
    with pytest.raises(PgcError, match="cartpole"):
        make_world("chess")
