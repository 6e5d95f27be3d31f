"""Loads a learnt policy, to act with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors import SafetensorError, safe_open

from pgc.errors import PgcError
from pgc.local_training.learnt import LearntPolicy, noted_recipe
from pgc.local_training.recipe import Recipe


def load(
    path: str | os.PathLike[str],
    *,
    trial: int = 0,
    which: Literal["averaged", "theta"] = "averaged",
) -> LearntPolicy:
    """Returns the policy in a run folder, or in a file that `GET /v1/models/…/policy` returned.

    A run has one policy for each trial. `averaged` is the mean of θ over the last reports, which is
    the better one under noise; `theta` is the last θ.

        policy = pgc.load("runs/…")
        action = policy.act(observation)
    """
    given = Path(path)
    file = given / "policy.safetensors" if given.is_dir() else given
    try:
        with safe_open(file, framework="numpy") as opened:
            theta, notes = np.atleast_2d(opened.get_tensor(which)), opened.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise PgcError(
            f"{given} holds no policy that can be read ({error}); name the folder of a run that "
            "has ended"
        ) from None
    if not 0 <= trial < len(theta):
        raise PgcError(f"{given} has {len(theta)} trial(s), numbered from 0; there is no {trial}")
    recipe = noted_recipe(notes) or _recipe_of_run(given)
    if theta.shape[1] != recipe.dim:
        raise PgcError(f"{file} has {theta.shape[1]} numbers, and its network d = {recipe.dim}")
    return LearntPolicy(theta[trial], recipe)


def _recipe_of_run(folder: Path) -> Recipe:
    """Returns the recipe of a run whose file does not hold it: it was made by an older pgc."""
    from pgc.local_training.policies.actor_critic import ActorCritic
    from pgc.runs.run import Run

    if not folder.is_dir():
        raise PgcError(f"{folder} does not say of which network it is: name the folder of its run")
    training = Run.open(folder).problem().training
    if not isinstance(training.policy, ActorCritic):
        raise PgcError(
            f"{folder} holds θ of a policy of its own: give the numbers in its "
            "policy.safetensors to the module that they belong to"
        )
    return training.recipe
