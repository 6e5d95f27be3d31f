"""privacy.json: what leaves an agent, what privacy is promised, and what is not protected."""

from __future__ import annotations

import math
from typing import Any

from pgc.config.problem import Problem
from pgc.config.start import UNKNOWN


def privacy_statement(problem: Problem) -> dict[str, Any]:
    """Returns what a reviewer needs: mechanism, parameters, ε per report and in total, unit of
    privacy, and what is not protected.
    """
    config, mechanism = problem.config, problem.randomiser.mechanism
    guarantee = mechanism.guarantee
    not_protected = [
        "that an agent takes part, and when its report arrives: arrival times depend on episode "
        "lengths",
        "anything an agent sends by other means than its report",
    ]
    if not guarantee.honest:
        not_protected.insert(
            0, f"the printed ε = {guarantee.nominal_epsilon:g} does not hold for the gradient"
        )
    inside = mechanism.core
    if not inside.integers and problem.epsilon_gradient < math.inf:
        not_protected.append(
            "the promise holds in real arithmetic; these floating-point draws must not leave a "
            "device"
        )
    start = config.start_origin or (UNKNOWN if config.start is not None else None)
    if config.public:
        not_protected = ["nothing needs protection: the agents are a public simulator's"]
    elif problem.epsilon_gradient == float("inf"):
        not_protected.insert(0, "the gradient: it is clipped and sent without noise")
    if start is not None and not start.startswith("public"):
        if config.public:
            not_protected = []
        not_protected.append(f"those whose data the start was made of ({start})")
    return {
        "unit_of_privacy": "one agent: its ψ, its episodes, its gradients and its scores, "
        "over all its submissions",
        "neighbouring": "any two inputs of that agent (local differential privacy)",
        "against": "anyone who sees the reports, the aggregator and all other agents included",
        "mechanism": mechanism.title,
        "parameters": {
            "dim": mechanism.dim,
            "subspace": config.subspace,
            "clip": config.clip,
            "reduced_dim": config.reduced_dim,
            "code_size": config.code_size,
            "lift": config.lift,
            "bytes_per_report": mechanism.report_bytes,
            "nominal_epsilon_per_report": mechanism.epsilon,
        },
        "guarantee": guarantee.statement,
        "honest": guarantee.honest,
        "epsilon_per_report": problem.epsilon / config.submissions_per_agent,
        "submissions_per_agent": config.submissions_per_agent,
        "epsilon_gradient": problem.epsilon_gradient,
        "epsilon_score": problem.epsilon_score,
        "epsilon": problem.epsilon,
        "composition": "sequential: the ε of an agent's submissions, "
        "and of gradient and score bit, add up",
        "not_protected": not_protected,
        "public": config.public,
        "start": start,
        "directions": start if config.subspace == "learnt" else None,
        "simulation": "The agents of this run were simulated. Their randomness came from a "
        "32-bit seed, and scores and steps in metrics/ are the experimenter's view: "
        "a deployed agent sends neither.",
    }


def epsilon_in_words(problem: Problem) -> str:
    """Returns the mechanism and the ε that truly holds, in words."""
    if problem.epsilon == float("inf"):
        return "no privacy (ε = ∞)"
    guarantee = problem.randomiser.mechanism.guarantee
    return f"{problem.randomiser.mechanism.title}, ε = {problem.epsilon:g}" + (
        "" if guarantee.honest else f" (not {problem.config.epsilon:g})"
    )
