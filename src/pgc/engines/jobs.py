"""The jobs that a worker of a crew can do.

Every job is a pure function of its arguments: done again, anywhere, it gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pgc.config import from_yaml
from pgc.config.problem import Problem, build
from pgc.engines.program import Program
from pgc.local_training.numpy_network import Network
from pgc.local_training.on_host import HostAgents
from pgc.local_training.policies.actor_critic import ActorCritic
from pgc.local_training.policies.on_host import HostPolicy, JaxOnHost
from pgc.local_training.policies.own import OwnPolicy
from pgc.local_training.policies.torch_module import TorchPolicy
from pgc.randomise.on_host import draw_code
from pgc.wire.values import HostSubmission, Task


class Job(NamedTuple):
    """The name of a function below, and its arguments: plain values and arrays."""

    name: str
    arguments: tuple[Any, ...]


def perform(job: Job) -> Any:
    """Calls the function that a job names, and returns its result."""
    return JOBS[job.name](*job.arguments)


def play(config_text: str, tasks: Sequence[Task]) -> list[HostSubmission]:
    """Takes steps 2 and 3 for some tasks in a world on the host; the config is given as YAML."""
    return answers(_problem(config_text), agents_of(config_text), tasks)


def answers(problem: Problem, agents: HostAgents, tasks: Sequence[Task]) -> list[HostSubmission]:
    """Takes steps 2 and 3 for the tasks in `tasks`, and returns what their agents send."""
    made = []
    for task, played in zip(tasks, agents.train(tasks), strict=True):  # 2 local training
        success = played.score >= problem.training.world.score_threshold
        # 3 randomise
        code = draw_code(
            problem.randomiser,
            played.coordinates,
            success,
            problem.config.seed,
            task.trial,
            task.submission,
        )
        made.append(HostSubmission(*code, played.score, played.ticks))
    return made


def scores(
    config_text: str, theta: np.ndarray, psi: tuple[float, ...], episodes: int, seed: int
) -> np.ndarray:
    """Returns the scores of greedy episodes of one policy, at one ψ."""
    agents = agents_of(config_text)
    return agents.scores(theta, type(agents.world.default_psi)(*psi), episodes, seed)


def advance(
    config_text: str, numbers: Sequence[np.ndarray], state: Sequence[np.ndarray], turns: int
) -> tuple[Any, ...]:
    """Runs up to `turns` turns of a block of compiled trials.

    Returns its state afterwards, and what arrived, by lane.
    """
    return _program(config_text, state[-1].shape[-1]).advance(numbers, state, turns)


JOBS: dict[str, Callable[..., Any]] = {"play": play, "scores": scores, "advance": advance}


@lru_cache(64)
def _program(config_text: str, lanes: int) -> Program:
    return Program(_problem(config_text), lanes)


@lru_cache(64)
def _problem(config_text: str) -> Problem:
    return build(from_yaml(config_text))


@lru_cache(64)
def agents_of(config_text: str) -> HostAgents:
    """Returns the agents that a config describes; made once for each config."""
    problem = _problem(config_text)
    return HostAgents(problem.training, problem.config.seed, host_policy(problem))


def host_policy(problem: Problem) -> HostPolicy:
    """Returns the policy of a problem in the form that agents on the host call."""
    policy = problem.training.policy
    if isinstance(policy, ActorCritic):
        return Network(problem.training.recipe)
    if isinstance(policy, TorchPolicy):
        return policy
    assert isinstance(policy, OwnPolicy)
    return JaxOnHost(policy)
