"""The paper's loop in plain PyTorch on Gymnasium's CartPole: how A3C is usually written. One trial,
one core.

Acting runs without autograd on one thread; the loss is computed once per episode over all its
steps, with one backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pgc.bench.common import Outcome, Settings, make_environment, randomize, virtual_time_loop
from pgc.errors import require


def run(settings: Settings) -> Outcome:
    """Plays for as long as the settings say, and returns the outcome."""
    torch = require("torch", "bench")
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    env = make_environment()
    layers = [torch.empty(16, 4), torch.empty(2, 16), torch.empty(1, 16)]
    for layer in layers:
        torch.nn.init.xavier_uniform_(layer)
    theta = torch.cat([layer.flatten() for layer in layers]).numpy()

    def episode(theta: np.ndarray, received: int) -> tuple[np.ndarray, int]:
        flat = torch.from_numpy(theta)
        shared, policy, value = (
            part.view(shape).clone().requires_grad_()
            for part, shape in zip(
                flat.split((64, 32, 16)), ((16, 4), (2, 16), (1, 16)), strict=True
            )
        )
        alpha = max(0.0, 0.5 - received / 1800)
        env.unwrapped.gravity = rng.choice((9.7, 9.8, 9.9))
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        states, actions = [state], []
        with torch.inference_mode():
            while True:
                if rng.random() < alpha:
                    action = int(rng.integers(2))
                else:
                    action = int(
                        torch.mv(policy, torch.mv(shared, torch.from_numpy(state)).relu_()).argmax()
                    )
                state, _, terminated, truncated, _ = env.step(action)
                states.append(state)
                actions.append(action)
                if terminated or truncated:
                    break
        loss = _loss(torch, np.array(states), np.array(actions), shared, policy, value, settings)
        grads = torch.autograd.grad(loss, (shared, policy, value))
        return torch.cat([g.flatten() for g in grads]).numpy(), len(actions)

    return virtual_time_loop(theta, episode, lambda g: randomize(g, settings, rng), settings)


def _loss(
    torch: Any,
    states: np.ndarray,
    actions: np.ndarray,
    shared: Any,
    policy: Any,
    value: Any,
    s: Settings,
) -> Any:
    hidden = (torch.from_numpy(states) @ shared.T).relu()
    values = (hidden @ value.T)[:, 0]
    log_pi = torch.log_softmax(hidden[:-1] @ policy.T, dim=1)
    after = float(values[-1].detach())
    target = np.empty(len(actions), np.float32)
    for t in range(len(actions) - 1, -1, -1):
        after = 1.0 + s.discount * after
        target[t] = after
    error = torch.from_numpy(target) - values[:-1]
    chosen = log_pi[torch.arange(len(actions)), torch.from_numpy(actions)]
    entropy = -(log_pi.exp() * log_pi).sum()
    return (
        -(chosen * error.detach()).sum()
        - s.entropy_weight * entropy
        + s.value_weight * (error**2).sum()
    )
