import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import random as jax_extend_random

from pgc.numerics import randomness
from pgc.numerics.randomness import Stream


def test_it_is_the_generator_behind_jax_random(rng):
    key, counters = (
        rng.integers(2**32, size=2, dtype=np.uint32),
        rng.integers(2**32, size=(2, 50), dtype=np.uint32),
    )
    ours = np.stack(
        randomness.threefry(jnp.uint32(key[0]), jnp.uint32(key[1]), *map(jnp.asarray, counters))
    )
    theirs = jax_extend_random.threefry_2x32(jnp.asarray(key), jnp.asarray(counters.ravel()))
    assert np.array_equal(ours, np.asarray(theirs).reshape(2, 50))


def test_trial_seeds_are_fold_in_of_the_seed():
    assert np.array_equal(
        randomness.trial_seed(7, 3), jax.random.key_data(jax.random.fold_in(jax.random.key(7), 3))
    )


def test_addresses_do_not_collide():
    seed = randomness.trial_seed(0, 0)
    seen = set()
    for stream in Stream:
        for item in range(40):
            a, b = randomness.words(seed, stream, item, jnp.arange(40))
            seen.update(zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True))
    assert len(seen) == len(Stream) * 40 * 40


def test_a_batch_of_addresses_is_the_addresses_one_by_one():
    seeds = jnp.stack([randomness.trial_seed(0, i) for i in range(3)], axis=-1)
    batch = randomness.vector(seeds, Stream.SECRET, jnp.array([4, 5, 6]), 7)
    assert batch.shape == (7, 3)
    for i in range(3):
        assert np.array_equal(batch[:, i], randomness.vector(seeds[:, i], Stream.SECRET, 4 + i, 7))
