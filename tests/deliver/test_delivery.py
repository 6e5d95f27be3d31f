"""Step 1: what a new version is delivered with."""

import jax
import jax.numpy as jnp
import numpy as np

from pgc.deliver.delivery import Deliverer
from pgc.deliver.schedule import Schedule
from tests.conftest import make_aggregator


class Shifted:
    """A subspace whose basis shows the θ that it was made of."""

    dim = 2

    def basis(self, theta):
        return jnp.eye(2) + theta[:, None]


def test_the_basis_is_made_anew_with_each_version_and_only_then():
    aggregator = make_aggregator(1.0, buffer_size=2)
    deliverer = Deliverer(schedule=Schedule(), subspace=Shifted())
    state = deliverer.with_basis(aggregator.start(jnp.zeros(2)))
    for n in range(6):
        updated = aggregator.accept(state, jnp.asarray([1.0, float(n)]), state.version)
        np.testing.assert_array_equal(updated.basis, state.basis)
        state = jax.jit(deliverer.prepare)(state, updated)
        np.testing.assert_array_equal(state.basis, jnp.eye(2) + state.theta[:, None])
        assert int(state.version) == (n + 1) // 2
    delivery = deliverer.deliver(state)
    np.testing.assert_array_equal(delivery.theta, state.theta)
    np.testing.assert_array_equal(delivery.basis, state.basis)


def test_without_a_subspace_nothing_is_prepared():
    aggregator, deliverer = make_aggregator(1.0), Deliverer(schedule=Schedule())
    state = deliverer.with_basis(aggregator.start(jnp.zeros(2)))
    updated = aggregator.accept(state, jnp.ones(2), state.version)
    assert deliverer.prepare(state, updated) is updated
    assert deliverer.deliver(updated).basis is None
