"""A mechanism made of traced numbers, as the compiled engine has it, does what the plain one does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.numerics.tracing import trace_numbers
from pgc.randomise.mechanisms.laplace import Laplace
from pgc.randomise.mechanisms.registry import MECHANISMS, make_mechanism

EPSILONS = (1e-3, 0.7, 2.0, 2.4, 50.0)
CLIPS = (0.01, 1.0, 0.3, 4.0, 0.01)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_lanes_with_different_epsilon_and_clip_each_do_what_the_plain_mechanism_does(name, rng):
    made = [
        make_mechanism(name, dim=6, epsilon=e, clip=c, reduced_dim=3, code_size=16)
        for e, c in zip(EPSILONS, CLIPS, strict=True)
    ]
    if name == "none":
        made = [make_mechanism("none", dim=6, epsilon=np.inf, clip=c) for c in (*CLIPS[:4], np.inf)]
    trace_numbers(made[0])
    lanes = jax.tree.map(lambda *numbers: jnp.stack([jnp.asarray(n) for n in numbers]), *made)
    gradients = (rng.normal(size=(5, 6)) * [[0.001], [1.0], [0.1], [30.0], [1.0]]).astype(
        np.float32
    )
    public = rng.integers(2**32, size=(5, made[0].public_words), dtype=np.uint32)
    secret = rng.integers(2**32, size=(5, made[0].secret_words), dtype=np.uint32)
    report = jax.jit(jax.vmap(lambda q, *given: q.randomize(*given)))(
        lanes, gradients, public, secret
    )
    for i, plain in enumerate(made):
        np.testing.assert_allclose(
            report[i],
            plain.randomize(gradients[i], public[i], secret[i]),
            rtol=2e-3,
            atol=2e-3 * np.abs(report[i]).max(),
        )
    if name == "prs":
        thresholds = jax.vmap(lambda q, *given: q.prepare(*given))(lanes, 1e9 * gradients, public)
        for i, plain in enumerate(made):  # the ends, which decide ε, exactly
            extremes = plain.prepare(1e9 * gradients[i], public[i])
            assert np.array_equal(thresholds[i], extremes)
            ends = {plain.lowest_threshold, plain.highest_threshold}
            assert all(
                t in ends or abs(t - 2**31) < 32 for t in extremes.tolist()
            )  # a projection onto nothing is a fair coin


def test_a_traced_mechanism_has_no_epsilon_to_read():
    trace_numbers(Laplace(dim=3, epsilon=1.0, clip=1.0))
    leaves, shape = jax.tree.flatten(Laplace(dim=3, epsilon=1.0, clip=1.0))
    again = jax.tree.unflatten(shape, leaves)
    assert again.dim == 3 and again.clip == 1 and not hasattr(again, "epsilon")


def test_the_float32_numbers_of_laplace_also_keep_epsilon(rng):
    trace_numbers(Laplace(dim=3, epsilon=1.0, clip=1.0))
    for epsilon, clip in [
        (5.0, 0.3),
        (0.7, 0.1),
        *zip(rng.uniform(0.01, 20, 3000), rng.uniform(0.001, 5, 3000), strict=True),
    ]:
        clip32, scale32 = jax.tree.leaves(Laplace(dim=3, epsilon=epsilon, clip=clip))
        assert float(clip32) / float(scale32) <= epsilon
    for epsilon in (
        1.0,
        2.0,
        5.0,
        10.0,
    ):  # the paper's own: nothing to mend, so the nearest float32
        assert jax.tree.leaves(Laplace(dim=3, epsilon=epsilon, clip=0.01))[1] == np.float32(
            0.01 / epsilon
        )
