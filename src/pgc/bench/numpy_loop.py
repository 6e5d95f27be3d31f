"""The paper's loop in plain NumPy on Gymnasium's CartPole: what a careful researcher writes first.
One trial, one core.

The algorithm is the engine's (nine asynchronous workers in virtual time, one episode per report,
the same loss, mechanism and update). The gradient of a whole episode is a few matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.bench.common import Outcome, Settings, make_environment, randomize, virtual_time_loop


def run(settings: Settings) -> Outcome:
    """Plays for as long as the settings say, and returns the outcome."""
    rng = np.random.default_rng(settings.seed)
    env = make_environment()
    limits = [(6 / (i + o)) ** 0.5 for o, i in ((16, 4), (2, 16), (1, 16))]
    theta = np.concatenate(
        [rng.uniform(-lim, lim, n) for lim, n in zip(limits, (64, 32, 16), strict=True)]
    )
    theta = theta.astype(np.float32)

    def episode(theta: np.ndarray, received: int) -> tuple[np.ndarray, int]:
        shared, policy, value = theta[:64].reshape(16, 4), theta[64:96].reshape(2, 16), theta[96:]
        alpha = max(0.0, 0.5 - received / 1800)
        env.unwrapped.gravity = rng.choice((9.7, 9.8, 9.9))
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        states, actions = [state], []
        while True:
            if rng.random() < alpha:
                action = int(rng.integers(2))
            else:
                logits = policy @ np.maximum(shared @ state, 0)
                action = int(logits[1] > logits[0])
            state, _, terminated, truncated, _ = env.step(action)
            states.append(state)
            actions.append(action)
            if terminated or truncated:
                break
        return _gradient(np.array(states), np.array(actions), shared, policy, value, settings), len(
            actions
        )

    return virtual_time_loop(theta, episode, lambda g: randomize(g, settings, rng), settings)


def _gradient(
    states: np.ndarray,
    actions: np.ndarray,
    shared: np.ndarray,
    policy: np.ndarray,
    value: np.ndarray,
    s: Settings,
) -> np.ndarray:
    steps = len(actions)
    before = states @ shared.T
    hidden = np.maximum(before, 0)
    values = hidden @ value
    logits = hidden[:-1] @ policy.T
    logits -= logits.max(axis=1, keepdims=True)
    log_pi = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    pi = np.exp(log_pi)
    target = np.empty(steps, np.float32)
    after: Any = values[-1]
    for t in range(steps - 1, -1, -1):
        after = 1.0 + s.discount * after
        target[t] = after
    advantage = target - values[:-1]
    to_logits = pi * advantage[:, None]
    to_logits[np.arange(steps), actions] -= advantage
    to_logits += s.entropy_weight * pi * (log_pi - (pi * log_pi).sum(axis=1, keepdims=True))
    to_value = -2 * s.value_weight * advantage
    to_hidden = (to_logits @ policy + to_value[:, None] * value) * (before[:-1] > 0)
    return np.concatenate(
        [
            (to_hidden.T @ states[:-1]).ravel(),
            (to_logits.T @ hidden[:-1]).ravel(),
            to_value @ hidden[:-1],
        ]
    )
