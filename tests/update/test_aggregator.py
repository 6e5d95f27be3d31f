"""The aggregator: worked by hand, and against plain mean SGD."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pgc.update.aggregator import Aggregator
from tests.conftest import make_aggregator


def feed(aggregator, reports, versions=None, theta=None, basis=None):
    state = aggregator.start(jnp.zeros(2) if theta is None else theta)._replace(basis=basis)
    states = []
    for i, report in enumerate(reports):
        version = state.version if versions is None else jnp.asarray(versions[i])
        state = aggregator.accept(state, jnp.asarray(report, jnp.float32), version)
        states.append(state)
    return states


def test_theta_moves_by_the_mean_once_the_buffer_is_full():
    states = feed(make_aggregator(0.5, buffer_size=2), [[1, 0], [3, 2], [4, 4]])
    assert [s.theta.tolist() for s in states] == [[0, 0], [-1.0, -0.5], [-1.0, -0.5]]
    assert [int(s.version) for s in states] == [0, 1, 1]
    assert [int(s.buffer_count) for s in states] == [1, 0, 1]


def test_a_partial_buffer_at_the_end_is_received_but_not_applied():
    *_, last = feed(make_aggregator(0.5, buffer_size=4), [[1, 1]] * 7)
    assert last.theta.tolist() == [-0.5, -0.5]
    assert (int(last.received), int(last.buffer_count), int(last.version)) == (7, 3, 1)


def test_a_buffer_of_one_is_plain_sgd(rng):
    reports = rng.normal(size=(20, 2)).astype(np.float32)
    theta = np.zeros(2, np.float32)
    for state, g in zip(feed(make_aggregator(0.1), reports), reports, strict=True):
        theta = theta - np.float32(0.1) * g
        np.testing.assert_allclose(state.theta, theta, rtol=1e-5, atol=1e-7)


def test_any_optimiser_of_optax(rng):
    reports = rng.normal(size=(6, 2)).astype(np.float32)
    adam = optax.adam(0.1)
    theta, memory = jnp.zeros(2), adam.init(jnp.zeros(2))
    for i in range(0, 6, 3):
        change, memory = adam.update(jnp.asarray(reports[i : i + 3].mean(axis=0)), memory, theta)
        theta = theta + change
    *_, last = feed(
        Aggregator(optimizer=optax.adam(1.0), learning_rate=0.1, buffer_size=3), reports
    )
    np.testing.assert_allclose(last.theta, theta, rtol=1e-5)


def test_a_report_may_be_used_several_times():
    (state,) = feed(make_aggregator(0.5, uses_per_report=3), [[1, 2]])
    assert (
        state.theta.tolist() == [-1.5, -3.0]
        and int(state.version) == 3
        and int(state.received) == 1
    )


def test_too_stale_reports_are_counted_and_dropped():
    states = feed(
        make_aggregator(1.0, max_staleness=1),
        [[1, 0], [1, 0], [1, 0], [1, 0]],
        versions=[0, 0, 0, 2],
    )
    assert [int(s.version) for s in states] == [1, 2, 2, 3]
    assert [int(s.discarded) for s in states] == [0, 0, 1, 1]
    assert int(states[-1].received) == 4 and states[-1].theta.tolist() == [-3, 0]


def test_stale_reports_are_used_unless_told_otherwise():
    *_, last = feed(make_aggregator(1.0), [[1, 0]] * 3, versions=[0, 0, 0])
    assert last.theta.tolist() == [-3, 0] and int(last.discarded) == 0


def test_the_average_is_the_mean_of_theta_after_the_later_reports(rng):
    reports = rng.normal(size=(10, 2))
    states = feed(make_aggregator(0.3, buffer_size=2, average_from=4), reports)
    expected = np.mean([s.theta for s in states[4:]], axis=0)
    np.testing.assert_allclose(states[-1].average, expected, rtol=1e-5)
    assert int(states[-1].averaged) == 6
    for early in states[:4]:  # a run that stops before averaging starts has its last θ, not θ_0
        assert np.array_equal(early.average, early.theta)


def test_trials_side_by_side_do_not_mix(rng):
    """Even for an optimiser that looks at the norm of the whole vector."""
    aggregator = Aggregator(
        optimizer=optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(1.0)),
        learning_rate=1.0,
        buffer_size=1,
    )
    reports = jnp.asarray(rng.normal(size=(2, 3)), jnp.float32)
    together = jax.vmap(aggregator.start, -1, -1)(jnp.zeros((2, 3)))
    together = jax.vmap(aggregator.accept, -1, -1)(together, reports, together.version)
    for i in range(3):
        (alone,) = feed(aggregator, [reports[:, i]])
        np.testing.assert_allclose(together.theta[:, i], alone.theta, rtol=1e-6)


def test_trimming_leaves_out_the_ends_of_every_coordinate():
    reports = [[1, 0], [100, 1], [2, -100], [3, 2], [-50, 3]]
    *_, last = feed(make_aggregator(1.0, buffer_size=5, trim=0.2, held=5), reports)
    np.testing.assert_allclose(last.theta, [-2.0, -1.0])  # of 1, 2, 3 and of 0, 1, 2
    assert (int(last.version), int(last.buffer_count)) == (1, 0) and not np.asarray(
        last.buffer
    ).any()


def test_stale_reports_are_not_held_for_trimming():
    aggregator = make_aggregator(1.0, buffer_size=3, trim=0.34, held=3, max_staleness=0)
    *_, last = feed(aggregator, [[1, 1], [9, 9], [2, 2], [6, 6]], versions=[0, -1, 0, 0])
    np.testing.assert_allclose(last.theta, [-2.0, -2.0])
    assert int(last.discarded) == 1


def test_steps_shrink_as_more_reports_are_in():
    """θ ← θ − η/√(1 + n/n₀)·g̃."""
    states = feed(make_aggregator(1.0, step_decay=2.0), [[1.0]] * 4)
    steps = -np.diff([0.0, *(float(state.theta[0]) for state in states)])
    np.testing.assert_allclose(steps, [(1 + n / 2) ** -0.5 for n in (1, 2, 3, 4)], rtol=1e-6)


def test_a_late_burst_moves_theta_less_than_an_early_one():
    """The hole: a few reports, sent last, undid what all others had done."""
    early, late = (
        feed(make_aggregator(1.0, step_decay=5.0), reports)
        for reports in ([[1.0]] * 20 + [[0.0]] * 120, [[0.0]] * 120 + [[1.0]] * 20)
    )
    moved = [-float(states[-1].theta[0]) for states in (early, late)]
    assert moved[1] < 0.4 * moved[0]


def test_reports_are_shortened_in_the_coordinates_that_agents_report():
    """The limit is in the coordinates that agents report; W takes it to θ-space."""
    bound = feed(make_aggregator(1.0, coordinate_norm=5.0), [[30.0, 40.0]])[-1]
    np.testing.assert_allclose(bound.theta, [-3.0, -4.0], rtol=1e-6)

    bound = feed(make_aggregator(1.0, coordinate_norm=5.0), [[30.0, 40.0]], basis=2 * jnp.eye(2))[
        -1
    ]
    np.testing.assert_allclose(bound.theta, [-6.0, -8.0], rtol=1e-6)


def test_a_report_is_no_longer_than_its_bound():
    *_, last = feed(make_aggregator(1.0, report_norm=5.0), [[30, 40], [0, 0], [1, 0]])
    np.testing.assert_allclose(last.theta, [-4.0, -4.0], rtol=1e-6)
