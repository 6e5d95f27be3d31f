"""The A3C loss: numbers worked by hand, finite differences, and a second derivation in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgc.local_training.estimators import baseline, streaming
from pgc.local_training.estimators.loss import (
    Episode,
    bootstrap_value,
    episode_loss,
    episode_returns,
    fit_features,
    gradient,
    returns,
    shaped_reward,
)
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.recipe import LossOptions
from pgc.local_training.worlds.cartpole import CartPole
from pgc.spaces import Categorical, Gaussian
from tests.conftest import PAPER_NET, more

CAPACITY = 12
JIT_GRADIENT = jax.jit(gradient, static_argnums=(2, 3, 4))


class EasyPole(CartPole):
    """For random episodes: short, and a score of 1 is a success."""

    max_steps = CAPACITY
    score_threshold = 1.0


WORLD = EasyPole()


def random_episode(rng, length, terminated, net=PAPER_NET):
    return Episode(
        jnp.asarray(rng.normal(size=(net.observation_dim, CAPACITY + 1))),
        random_actions(rng, net.actions),
        jnp.asarray(rng.normal(size=CAPACITY)),
        jnp.asarray(length),
        jnp.asarray(terminated),
    )


def random_actions(rng, actions):
    if isinstance(actions, Gaussian):
        return jnp.asarray(rng.normal(size=(actions.outputs, CAPACITY)))
    return jnp.asarray(rng.integers(actions.count, size=CAPACITY))


def test_returns_worked_by_hand():
    out = returns(jnp.array([1.0, 2.0, 3.0, 99.0]), jnp.asarray(3), jnp.asarray(8.0), 0.5)
    assert out[:3].tolist() == [
        1 + 0.5 * (2 + 0.5 * (3 + 0.5 * 8)),
        2 + 0.5 * (3 + 0.5 * 8),
        3 + 0.5 * 8,
    ]


def test_loss_worked_by_hand():
    """One hidden unit that passes s = 1 on; logits (0, ln 3), V = 2; two steps with reward 1, γ = 0.5, V(s_T) = 0."""
    net = ActorCritic(observation_dim=1, actions=Categorical(2), hidden=(1,))
    theta = jnp.array([1.0, 0.0, np.log(3.0), 2.0])
    episode = Episode(
        jnp.ones((1, 3)), jnp.array([1, 0]), jnp.ones(2), jnp.asarray(2), jnp.asarray(True)
    )
    options = LossOptions(discount=0.5, value_weight=0.5, entropy_weight=0.1, bootstrap="zero")
    targets = episode_returns(theta, episode, net, options, 195.0)
    assert targets.tolist() == [1.5, 1.0]
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    policy = -(np.log(0.75) * (1.5 - 2) + np.log(0.25) * (1.0 - 2)) - 0.1 * 2 * entropy
    value = (1.5 - 2) ** 2 + (1.0 - 2) ** 2
    assert float(episode_loss(theta, episode, targets, net, options)) == pytest.approx(
        policy + 0.5 * value, rel=1e-6
    )
    mean = LossOptions(discount=0.5, entropy_weight=0.1, bootstrap="zero", reduction="mean")
    assert float(episode_loss(theta, episode, targets, net, mean)) == pytest.approx(
        (policy + 0.5 * value) / 2, rel=1e-6
    )


@pytest.mark.parametrize(
    ("reward", "length", "terminated", "expected"),
    [
        ("step", 3, True, [1, 1, 1]),
        ("end", 3, True, [0, 0, -1]),
        ("end", 10, False, [0] * 9 + [1]),
        ("failure", 3, True, [0, 0, -1]),
        ("failure", 10, False, [0] * 10),
    ],
)
def test_reward_shapes(reward, length, terminated, expected):
    episode = Episode(
        jnp.zeros((4, 13)),
        jnp.zeros(12, int),
        jnp.ones(12),
        jnp.asarray(length),
        jnp.asarray(terminated),
    )
    options = LossOptions(reward=reward, discount=0.0, bootstrap="zero")
    out = episode_returns(jnp.zeros(112), episode, PAPER_NET, options, threshold=9.0)
    assert out[:length].tolist() == expected


def test_bootstraps():
    value, ended = jnp.array([5.0, 5.0]), jnp.array([True, False])
    assert bootstrap_value(LossOptions(bootstrap="zero"), value, ended).tolist() == [0, 0]
    assert bootstrap_value(LossOptions(bootstrap="always"), value, ended).tolist() == [5, 5]
    assert bootstrap_value(LossOptions(bootstrap="timeout"), value, ended).tolist() == [0, 5]


def test_finite_differences(x64, rng):
    theta = jnp.asarray(rng.normal(size=112) * 0.5)
    episode, targets = random_episode(rng, 7, True), jnp.asarray(rng.normal(size=CAPACITY))
    options = LossOptions(value_weight=0.7, entropy_weight=0.3)
    frozen = PAPER_NET.apply(PAPER_NET.unflatten(theta[:, None]), episode.observations[:, :-1])[1]

    def surrogate(
        t,
    ):  # the loss whose ordinary derivative is the A3C gradient: advantages are numbers
        logits, values = PAPER_NET.apply(
            PAPER_NET.unflatten(t[:, None]), episode.observations[:, :-1]
        )
        log_pi = jax.nn.log_softmax(logits, axis=0)
        chosen = jnp.take_along_axis(log_pi, episode.actions[None], axis=0)[0]
        steps = (
            -chosen * (targets - frozen)
            + 0.3 * jnp.sum(jnp.exp(log_pi) * log_pi, axis=0)
            + 0.7 * (targets - values) ** 2
        )
        return jnp.sum(steps[:7])

    ours = jax.jit(jax.grad(episode_loss), static_argnums=(3, 4))(
        theta, episode, targets, PAPER_NET, options
    )
    steps = 1e-6 * np.eye(112)
    at = jax.jit(jax.vmap(surrogate))
    differences = (at(theta + steps) - at(theta - steps)) / 2e-6
    np.testing.assert_allclose(ours, differences, rtol=1e-5, atol=1e-6)


def numpy_gradient(theta, episodes, options, threshold):
    """A second derivation, by hand, step by step, for the paper's network. Shares no code with pgc."""
    c, p, v = theta[:64].reshape(16, 4), theta[64:96].reshape(2, 16), theta[96:]
    targets = []
    for e in episodes:
        length, obs = int(e.length), np.asarray(e.observations)
        last = float(v @ np.maximum(c @ obs[:, length], 0))
        keep = {"zero": False, "always": True, "timeout": not bool(e.terminated)}[options.bootstrap]
        keep = keep and options.baseline == "critic"
        r, score = last if keep else 0.0, float(np.sum(np.asarray(e.rewards)[:length]))
        out = np.zeros(length)
        for t in reversed(range(length)):
            final = t == length - 1
            reward = {
                "step": float(e.rewards[t]),
                "end": (1.0 if score >= threshold else -1.0) if final else 0.0,
                "failure": -1.0 if final and bool(e.terminated) else 0.0,
            }[options.reward]
            r = reward + options.discount * r
            out[t] = r
        targets.append(out)
    if options.baseline == "local":
        half, rows = np.asarray([2.4, 3.0, 0.21, 3.0]), []
        for e in episodes:
            x, t = (
                np.asarray(e.observations)[:, : int(e.length)].T / half,
                np.arange(int(e.length)) / CAPACITY,
            )
            rows.append(np.column_stack([np.ones_like(t), t, t**2, x, x**2]))
        f, y = np.concatenate(rows), np.concatenate(targets)
        ridge = 1e-3 * np.mean(np.sum(f**2, axis=0)) * np.eye(11)
        beta = np.linalg.solve(f.T @ f + ridge, f.T @ y)
        targets = [y - row @ beta for y, row in zip(targets, rows, strict=True)]
    if options.standardize != "no":
        pooled = np.concatenate(targets)
        mean = 0.0 if options.baseline == "local" else pooled.mean()
        scale = (
            max(np.sqrt(np.mean((pooled - mean) ** 2)), 1e-6)
            if options.standardize == "scale"
            else 1.0
        )
        targets = [(x - mean) / scale for x in targets]
    total = np.zeros(112)
    for e, target in zip(episodes, targets, strict=True):
        dc, dp, dv = np.zeros((16, 4)), np.zeros((2, 16)), np.zeros(16)
        for t in range(int(e.length)):
            s = np.asarray(e.observations)[:, t]
            z = c @ s
            h = np.maximum(z, 0)
            logits = p @ h
            pi = np.exp(logits - logits.max())
            pi /= pi.sum()
            value, entropy = (
                v @ h if options.baseline == "critic" else 0.0,
                -np.sum(pi * np.log(pi)),
            )
            d_logits = pi * (target[t] - value)
            d_logits[int(e.actions[t])] -= target[t] - value
            d_logits += options.entropy_weight * pi * (np.log(pi) + entropy)
            d_value = (
                -2 * options.value_weight * (target[t] - value)
                if options.baseline == "critic"
                else 0.0
            )
            dp += np.outer(d_logits, h)
            dv += d_value * h
            dh = p.T @ d_logits + v * d_value
            dc += np.outer(dh * (z > 0), s)
        weight = 1 / int(e.length) if options.reduction == "mean" else 1.0
        total += weight * np.concatenate([dc.ravel(), dp.ravel(), dv])
    return total / len(episodes)


LENGTHS = (12, 1)
"""Of random episodes: the longest there is, which ends by time, and the shortest."""


def option(reward, bootstrap, reduction, standardize, baseline):
    return LossOptions(
        reward=reward, bootstrap=bootstrap, reduction=reduction, standardize=standardize, discount=0.9, value_weight=0.3,
        entropy_weight=0.05, baseline=baseline,
    )  # fmt: skip


# Every choice at least once, and in `make test-all` every pair of choices.
CHOICES = [
    option("failure", "always", "sum", "scale", "critic"),
    option("end", "zero", "sum", "no", "none"),
    option("step", "timeout", "mean", "center", "local"),
    *more(
        option("step", "zero", "sum", "no", "critic"),
        option("end", "zero", "mean", "scale", "critic"),
        option("end", "timeout", "sum", "scale", "none"),
        option("step", "always", "mean", "center", "critic"),
        option("step", "timeout", "sum", "scale", "critic"),
        option("end", "always", "sum", "no", "critic"),
        option("end", "timeout", "sum", "center", "critic"),
        option("failure", "zero", "sum", "center", "critic"),
        option("failure", "timeout", "mean", "no", "critic"),
        option("step", "always", "sum", "no", "none"),
        option("step", "zero", "sum", "scale", "local"),
        option("failure", "always", "sum", "no", "local"),
    ),
]


@pytest.mark.parametrize(
    "options",
    CHOICES,
    ids=lambda o: f"{o.reward}-{o.bootstrap}-{o.reduction}-{o.standardize}-{o.baseline}",
)
def test_agrees_with_a_second_derivation_on_random_episodes(options, x64, rng):
    theta = rng.normal(size=112) * 0.5
    episodes = [random_episode(rng, n, n != 12) for n in LENGTHS]
    ours = JIT_GRADIENT(jnp.asarray(theta), episodes, PAPER_NET, options, WORLD)
    theirs = numpy_gradient(theta, episodes, options, threshold=1.0)
    assert np.abs(theirs).max() > 1e-3
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def reorder(forward):
    logits, value, inputs = forward
    return inputs, logits, value


def streamed_gradient(theta, episodes, options, threshold, chunk, net=PAPER_NET):
    """The gradient as `agents_batched` computes it: chunk by chunk, nothing stored."""
    params, total = net.unflatten(theta[:, None]), None

    @jax.jit
    def note(obs, action, t):
        f = fit_features(options, obs, t, WORLD) if options.fits else None
        return streaming.tape(net, params, *reorder(net.forward(params, obs)), action, f, options)

    features = 0 if not options.fits else 11 if options.baseline == "local" else 1
    advance = jax.jit(lambda *args: streaming.advance(net, *args, options.discount))
    for e in episodes:
        traces, length = streaming.start(net.dim, (1,), features), int(e.length)
        observations = e.observations[:, :, None]
        score = jnp.cumsum(e.rewards)
        for first in range(0, length, chunk):
            tapes, rewards, lived = [], [], []
            for t in range(first, first + chunk):
                t_safe = min(t, CAPACITY - 1)
                tapes.append(
                    note(
                        observations[:, t_safe], e.actions[..., t_safe, None], jnp.asarray([t_safe])
                    )
                )
                final = jnp.asarray(t == length - 1)
                rewards.append(
                    shaped_reward(
                        options.reward,
                        e.rewards[t_safe],
                        final,
                        e.terminated,
                        score[t_safe] >= threshold,
                    )
                )
                lived.append(t < length)
            stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *tapes)
            rewards, lived = jnp.stack(rewards)[:, None], jnp.array(lived)[:, None]
            traces = advance(traces, stacked, rewards, lived)
        _, last = net.apply(params, observations[:, length])
        last = bootstrap_value(options, last, e.terminated[None])
        one = streaming.finish(traces, e.length[None], last, options)
        total = one if total is None else jax.tree.map(jnp.add, total, one)
    return streaming.combine(total, len(episodes), options)[:, 0]


@pytest.mark.parametrize(
    "options",
    CHOICES,
    ids=lambda o: f"{o.reward}-{o.bootstrap}-{o.reduction}-{o.standardize}-{o.baseline}",
)
def test_streaming_gives_the_same_gradient_without_storing_an_episode(options, x64, rng):
    theta = jnp.asarray(rng.normal(size=112) * 0.5)
    episodes = [random_episode(rng, n, n != 12) for n in LENGTHS]
    stored = JIT_GRADIENT(theta, episodes, PAPER_NET, options, WORLD)
    streamed = streamed_gradient(theta, episodes, options, 1.0, chunk=5)
    np.testing.assert_allclose(streamed, stored, rtol=1e-8, atol=1e-9)


def test_streaming_handles_biases_and_depth(x64, rng):
    net = ActorCritic(observation_dim=4, actions=Categorical(3), hidden=(5, 6), biases=True)
    theta = jnp.asarray(rng.normal(size=net.dim) * 0.5)
    episodes, options = [random_episode(rng, 9, True, net)], LossOptions(standardize="scale")
    streamed = streamed_gradient(theta, episodes, options, 1.0, 4, net)
    np.testing.assert_allclose(
        streamed, JIT_GRADIENT(theta, episodes, net, options, WORLD), rtol=1e-8, atol=1e-9
    )


def test_a_gaussian_policy_streams_the_gradient_of_its_own_log_density(x64, rng):
    net = ActorCritic(
        observation_dim=4,
        actions=Gaussian((-2.0, 0.0), (2.0, 1.0)),
        hidden=(5,),
        bounds=WORLD.observation_bounds,
    )
    theta = jnp.asarray(rng.normal(size=net.dim) * 0.5)
    episodes = [random_episode(rng, n, False, net) for n in (9, 12)]
    options = LossOptions(baseline="local", standardize="scale")
    streamed = streamed_gradient(theta, episodes, options, 1.0, 4, net)
    np.testing.assert_allclose(
        streamed, JIT_GRADIENT(theta, episodes, net, options, WORLD), rtol=1e-7, atol=1e-8
    )


def test_the_local_fit_is_ridge_regression_in_every_lane(x64, rng):
    f, y = rng.normal(size=(7, 40, 3)), rng.normal(size=(40, 3))
    gram, cross = np.einsum("itl,jtl->ijl", f, f), np.einsum("itl,tl->il", f, y)
    ours = baseline.fit(jnp.asarray(gram), jnp.asarray(cross))
    for lane in range(3):
        g = gram[..., lane]
        np.testing.assert_allclose(
            ours[:, lane],
            np.linalg.solve(g + 1e-3 * np.trace(g) / 7 * np.eye(7), cross[:, lane]),
            rtol=1e-9,
        )
    assert np.isfinite(baseline.fit(jnp.zeros((7, 7)), jnp.zeros(7))).all()
