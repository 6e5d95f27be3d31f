"""Train a PyTorch policy of your own through the service: it is told how many numbers θ has, and nothing else.

    python examples/torch_policy.py theta.npy                                       # θ_0, for the operator
    pgc serve --theta theta.npy --epsilon 2 &
    pgc tokens issue --count 800 > tokens.txt
    python examples/torch_policy.py http://127.0.0.1:8443 tokens.txt ledgers        # 800 homes, one report each

Each home reserves ε for an offer, plays ten episodes of CartPole with its own gravity, computes one policy gradient with
autograd, and hands it to its `Device`, which randomises it and returns the bytes to send. (The homes are simulated: this program
provisions them all, and does not hide how long they take. A real device is provisioned once, with `device_id`, and has a slot.)
"""

import random
import sys
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import pgc
from pgc.service.client import ServiceClient

SCALE = torch.tensor([2.4, 3.0, 0.21, 3.0])


def make_policy() -> torch.nn.Module:
    """Any module; this one is linear, which is enough for a pole."""
    torch.manual_seed(0)
    policy = torch.nn.Linear(4, 2)
    torch.nn.init.normal_(policy.weight, std=0.1)
    return policy


def play(policy: torch.nn.Module, home, greedy: bool = False) -> tuple[torch.Tensor, list[float]]:
    """One episode: log-probabilities of what was done, and the rewards."""
    seen, logs, rewards = home.reset(seed=random.getrandbits(31))[0], [], []
    while len(rewards) < 200:
        choice = torch.distributions.Categorical(logits=policy(torch.as_tensor(seen) / SCALE))
        action = choice.logits.argmax() if greedy else choice.sample()
        logs.append(choice.log_prob(action))
        seen, reward, ended, _, _ = home.step(int(action))
        rewards.append(float(reward))
        if ended:
            break
    return torch.stack(logs), rewards


def gradient(policy: torch.nn.Module, home, episodes: int) -> torch.Tensor:
    """REINFORCE with the episodes' mean return at each step as the baseline."""
    played = [play(policy, home) for _ in range(episodes)]
    to_go = [np.cumsum(rewards[::-1])[::-1] for _, rewards in played]
    longest = max(map(len, to_go))
    table = np.stack([np.pad(g, (0, longest - len(g))) for g in to_go])
    advantages = (table - table.mean(axis=0)) / (table.std() + 1e-6)
    loss = -sum(
        (logs * torch.tensor(a[: len(logs)].copy())).sum()
        for (logs, _), a in zip(played, advantages, strict=True)
    )
    return torch.cat([g.ravel() for g in torch.autograd.grad(loss, list(policy.parameters()))])


def make_home():
    home = gymnasium.make("CartPole-v1").unwrapped
    home.gravity = random.choice((9.7, 9.8, 9.9))
    return home


def answer(
    url: str, token: str, ledger: Path, policy: torch.nn.Module, ca: str | None = None
) -> None:
    """One home, as many reports as its token is good for."""
    device = pgc.Device.open(ledger)
    with ServiceClient(url, token, ca=ca) as service:
        while (received := service.offer()) is not None:
            report = device.reserve(received)  # before anything private is touched
            if report is None:
                offer = pgc.Offer.decode(received)
                vector_to_parameters(torch.tensor(offer.theta), policy.parameters())
                report = device.release(received, gradient(policy, make_home(), offer.episodes))
            if isinstance(report, pgc.Refusal):
                return
            service.submit(report)


def mean_score(policy: torch.nn.Module, theta: np.ndarray, episodes: int = 20) -> float:
    """Greedy, in new homes."""
    vector_to_parameters(torch.tensor(theta), policy.parameters())
    with torch.no_grad():
        return float(
            np.mean([sum(play(policy, make_home(), greedy=True)[1]) for _ in range(episodes)])
        )


def main(first: str, *rest: str) -> None:
    policy = make_policy()
    if not rest:
        np.save(first, parameters_to_vector(policy.parameters()).detach().numpy())
        return
    tokens, ledgers = Path(rest[0]).read_text().split(), Path(rest[1])
    ledgers.mkdir(exist_ok=True)
    for n, token in enumerate(tokens):
        if not (ledgers / f"{n}.db").exists():
            pgc.Device.create(ledgers / f"{n}.db", epsilon=2.0)
        answer(first, token, ledgers / f"{n}.db", policy)
        if n % 100 == 99:
            print(f"{n + 1} homes")


if __name__ == "__main__":
    main(*sys.argv[1:])
