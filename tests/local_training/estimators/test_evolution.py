"""Evolution: what is summed while playing is the definition, and it points uphill."""

import jax
import jax.numpy as jnp
import numpy as np

from pgc.config import configure
from pgc.config.problem import build
from pgc.engines.compiled import trial_seeds
from pgc.local_training.definition import perturbation
from pgc.local_training.estimators import evolution
from pgc.local_training.estimators.loss import fitted, returns
from pgc.local_training.recipe import LossOptions

OPTIONS = LossOptions(baseline="local", discount=0.9)


def test_running_sums_give_the_definition(x64, rng):
    lengths, k, dim, chunk = (5, 12, 8), 4, 3, 4
    xi = rng.normal(size=(dim, len(lengths)))
    total, rewards, features = None, [], []
    for e, length in enumerate(lengths):
        r, f = rng.normal(size=12), np.concatenate([np.ones((1, 12)), rng.normal(size=(k - 1, 12))])
        traces = evolution.start((1,), k)
        for first in range(0, 12, chunk):
            here = slice(first, first + chunk)
            lived = jnp.asarray(np.arange(12)[here] < length)[:, None]
            steps = (
                jnp.asarray(f.T[here])[..., None],
                jnp.asarray(r[here])[:, None],
                lived,
                jnp.asarray([first == 0]),
            )
            traces = evolution.advance(traces, *steps, 0.9)
        one = evolution.finish(traces, jnp.asarray(xi[:, e : e + 1]))
        total = one if total is None else jax.tree.map(jnp.add, total, one)
        rewards.append(r), features.append(f)
    streamed = evolution.combine(total, len(lengths), OPTIONS)[:, 0]

    all_returns = [
        np.asarray(returns(jnp.asarray(r), n, jnp.zeros(()), 0.9))[:n]
        for r, n in zip(rewards, lengths, strict=True)
    ]
    f, y = (
        np.concatenate([f[:, :n] for f, n in zip(features, lengths, strict=True)], axis=1),
        np.concatenate(all_returns),
    )
    beta = fitted(OPTIONS, jnp.asarray(f @ f.T), jnp.asarray(f @ y))
    starts = np.stack([f[:, 0] for f in features], axis=1)
    values = jnp.asarray([r[0] for r in all_returns])
    np.testing.assert_allclose(
        streamed,
        evolution.coordinates(values, jnp.asarray(starts), beta, jnp.asarray(xi)),
        rtol=1e-9,
    )
    advantage = np.asarray(values) - np.asarray(beta) @ starts
    expected = -np.linalg.solve(xi @ xi.T + dim * np.eye(dim), xi @ (advantage - advantage.mean()))
    np.testing.assert_allclose(streamed, expected, rtol=1e-9)


def test_it_points_down_the_loss(rng):
    """Returns that rise along one direction of ξ: the coordinates descend the loss along it."""
    xi = jnp.asarray(rng.normal(size=(4, 400)))
    values = 3 * xi[1] + 0.1 * jnp.asarray(rng.normal(size=400))
    z = np.asarray(evolution.coordinates(values, jnp.ones((1, 400)), jnp.zeros(1), xi))
    assert z[1] < -2 and np.abs(np.delete(z, 1)).max() < 0.5


def test_perturbations_are_normal_and_come_in_opposite_pairs():
    training = build(configure()).training
    seeds = trial_seeds(0, np.arange(300))
    at = type("At", (), {"seed": seeds, "submission": jnp.zeros(300, jnp.int32)})
    first, opposite, second = (np.asarray(perturbation(training, at, e)) for e in (0, 1, 2))
    assert np.array_equal(opposite, -first)
    assert first.shape == (4, 300) and abs(first.mean()) < 0.1 and abs(first.std() - 1) < 0.1
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1
