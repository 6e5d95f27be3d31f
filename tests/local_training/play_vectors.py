"""Writes docs/play-vectors.json anew: `python -m tests.local_training.play_vectors`. Only when step 2 changes."""

import json
from pathlib import Path

import numpy as np

from pgc.local_training.numpy_episodes import History
from pgc.local_training.numpy_estimator import coordinates, nearby, tried
from pgc.local_training.numpy_network import Network
from pgc.local_training.recipe import Recipe

VECTORS = Path(__file__).parents[2] / "docs" / "play-vectors.json"
ABOUT = (
    "Each case: a recipe as a card has it (recipe and play), θ, the basis W (d rows; null: none), the ξ of each "
    "local episode (empty for a policy gradient), local episodes, and z, what is computed of them (docs/play.md). Episodes are "
    "random numbers and no world's. `tried` is the policy of the second local episode. `outputs` and `value` are the "
    "network's at θ for the first observation of the first episode. `tried` of a policy gradient is θ."
)
BOX, CONTINUOUS = ((-2.0, 2.0), (0.0, 8.0)), ((-2.0, 2.0), (0.0, 1.0))
GRADIENT = {"estimator": "policy-gradient", "action": "sampled", "score": "training"}
CASES = {
    "evolution, local baseline, a basis of three columns": (3, {}),
    "evolution, full": (0, {"baseline": "none", "standardize": "center", "hidden": (), "biases": True}),
    "evolution, reward at the end, two hidden layers": (2, {"reward": "end", "hidden": (4, 3)}),
    "evolution, continuous actions, tanh": (2, {"actions": CONTINUOUS, "activation": "tanh"}),
    "policy gradient, critic": (
        0, {**GRADIENT, "baseline": "critic", "standardize": "no", "bootstrap": "timeout"},
    ),
    "policy gradient, local baseline, scaled, mean, biases": (
        3, {**GRADIENT, "reduction": "mean", "biases": True, "entropy_weight": 0.1},
    ),
    "policy gradient, continuous actions": (0, {**GRADIENT, "actions": CONTINUOUS}),
    "policy gradient, reward at the end, not normalized": (
        2, {**GRADIENT, "reward": "end", "baseline": "none", "standardize": "center", "normalize": False},
    ),
    "policy gradient, tanh, local baseline, not normalized": (
        2, {**GRADIENT, "activation": "tanh", "normalize": False, "hidden": (4, 3)},
    ),
    "policy gradient, failure, bootstrap always": (
        0, {**GRADIENT, "reward": "failure", "baseline": "critic", "bootstrap": "always"},
    ),
}  # fmt: skip


def made(name, columns, settings):
    """One case, from a seed that is its name."""
    rng = np.random.default_rng(list(name.encode()))
    recipe = Recipe(
        **{
            "bounds": BOX,
            "actions": 3,
            "max_steps": 6,
            "score_threshold": 1.0,
            "hidden": (4,),
            "spread": 0.7,
            **settings,
        }
    )
    theta = rng.normal(size=recipe.dim).astype(np.float32)
    basis = None if not columns else rng.normal(size=(recipe.dim, columns)).astype(np.float32)
    xi = tried(rng, (columns or recipe.dim) if recipe.evolves else 0, 3)
    episodes = [an_episode(rng, recipe, steps) for steps in (6, 4, 1)]
    network = Network(recipe)
    passed = network.forward(theta.astype(float), episodes[0].observations)
    return {
        "case": name,
        "recipe": recipe.card,
        "play": recipe.play,
        "theta": theta.tolist(),
        "basis": None if basis is None else basis.tolist(),
        "xi": xi.T.tolist(),
        "episodes": [
            {
                "observations": e.observations.tolist(),
                "actions": e.actions.tolist(),
                "rewards": e.rewards.tolist(),
                "terminated": e.terminated,
            }
            for e in episodes
        ],
        "tried": nearby(recipe, theta.astype(float), basis, xi[:, 1]).tolist(),
        "outputs": passed.outputs[0].tolist(),
        "value": float(passed.values[0]),
        "z": coordinates(recipe, theta.astype(float), basis, episodes, xi).tolist(),
    }


def an_episode(rng, recipe, steps):
    if isinstance(recipe.actions, int):
        actions = rng.integers(recipe.actions, size=steps)
    else:
        actions = rng.uniform(-1, 1, size=(steps, len(recipe.actions)))
    return History(
        rng.uniform(-2, 4, size=(steps + 1, 2)), actions, rng.normal(size=steps), bool(steps < 6)
    )


def vectors():
    """All of them."""
    return {"about": ABOUT, "cases": [made(name, *case) for name, case in CASES.items()]}


if __name__ == "__main__":
    VECTORS.write_text(
        json.dumps(vectors(), ensure_ascii=False).replace('{"case"', '\n{"case"') + "\n",
        encoding="utf-8",
    )
