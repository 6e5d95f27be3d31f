"""The randomness of a simulation: every random word has an address, and no generator is passed
through the code.

    word = Threefry(key = seed of the trial, counter = (item, stream, position))

Threefry-2×32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) is the
generator behind `jax.random`, and the values are the same; it is written out here because JAX's CPU
version runs as a loop of small kernels, and because an address, unlike a chain of derived keys,
costs one hash however deep it is.

**Never use it for a release.** The seed has only 32 bits. On a device the secret words come from
the operating system.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

MAX_ITEMS = 2**29
"""The most items (agents or submissions) that one trial can address."""
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


class Stream(IntEnum):
    """The purpose of a random word. Words of different streams are independent."""

    PSI = 0
    PLAY = 1
    RESET = 2
    WORLD = 3
    SECRET = 4
    PUBLIC = 5
    SCORE = 6
    THETA = 7


class Address(NamedTuple):
    """Where the random words of one submission are found."""

    seed: jax.Array  # (2, *batch), the seed of the trial
    agent: jax.Array | int
    submission: jax.Array | int


def agent_number(worker: Any, index: Any, workers: int, submissions_per_agent: int) -> Any:
    """Returns the number of the agent that makes submission `index` (from 0) of a worker.

    An agent makes `submissions_per_agent` (T) of them, and then the worker plays another agent.
    """
    return index // submissions_per_agent * workers + worker


def address(
    seed: jax.Array, worker: Any, index: Any, workers: int, submissions_per_agent: int
) -> Address:
    """Returns the address of submission `index` (from 0) of a worker."""
    return Address(
        seed, agent_number(worker, index, workers, submissions_per_agent), index * workers + worker
    )


def host_rng(
    seed: int, trial: int, submission: int, stream: Stream, position: int = 0
) -> np.random.Generator:
    """Returns the generator of one stream of a submission that is played on the host."""
    return np.random.default_rng(host_address(seed, trial, submission, stream, position))


def host_address(
    seed: int, trial: int, submission: int, stream: Stream, position: int = 0
) -> list[int]:
    """Returns the numbers that seed the generator of `host_rng`."""
    return [seed, trial, submission, stream, position]


def trial_seed(seed: int, trial: jax.Array | int) -> jax.Array:
    """Returns the two words that seed a trial, alone or beside others: fold_in(seed, trial)."""
    return jax.random.key_data(jax.random.fold_in(jax.random.key(seed), trial))


def words(
    seed: jax.Array, stream: Stream, item: jax.Array | int, position: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Returns two words at an address. `seed` is (2, *batch); the rest broadcasts against batch."""
    counter = jnp.asarray(item, jnp.uint32) * jnp.uint32(len(Stream)) + jnp.uint32(stream)
    return threefry(seed[0], seed[1], counter, jnp.asarray(position, jnp.uint32))


def vector(seed: jax.Array, stream: Stream, item: jax.Array | int, n: int) -> jax.Array:
    """Returns n words of a stream, (n, *batch)."""
    position = jnp.arange((n + 1) // 2).reshape(-1, *[1] * (seed.ndim - 1))
    return jnp.concatenate(words(seed, stream, item, position))[:n]


def normal(first: jax.Array, second: jax.Array) -> jax.Array:
    """Returns standard normal numbers (2n, *batch) made from two arrays of words (n, *batch).

    Each pair of words makes a pair of numbers (Box and Muller 1958).
    """
    radius = jnp.sqrt(-2 * jnp.log((first.astype(jnp.float32) + 0.5) * 2.0**-32))
    angle = second.astype(jnp.float32) * (2 * jnp.pi * 2.0**-32)
    return jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)])


def key(
    seed: jax.Array, stream: Stream, item: jax.Array | int, position: jax.Array | int
) -> jax.Array:
    """Returns the JAX key at an address, for code that needs a key."""
    made: jax.Array = jax.random.wrap_key_data(
        jnp.stack(words(seed, stream, item, position), axis=-1)
    )
    return made


def threefry(
    key0: jax.Array, key1: jax.Array, x0: jax.Array, x1: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the two words of Threefry-2×32 with 20 rounds, elementwise on uint32."""
    schedule = (key0, key1, key0 ^ key1 ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << by) | (x1 >> (32 - by))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x0, x1
