"""A user's own compiled world: it is looked at before anything is compiled, so that a mistake is
one line and not a traceback.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgc.errors import PgcError, in_one_line
from pgc.local_training.worlds.base import CompiledWorld, Transition
from pgc.spaces import Gaussian

NEEDED = (
    "observation_dim", "actions", "max_steps", "score_threshold", "observation_bounds",
    "default_psi",
)  # fmt: skip
PAGE = "docs/add-a-world.md"


def own_world(kind: type[CompiledWorld], name: str) -> CompiledWorld:
    """Returns a user's own compiled world, known by `name`; refuses one that cannot be played.

    Continuous actions reach its `step` within their range, as they do on a device.
    """
    try:
        world = kind()
    except TypeError as error:  # a method is missing, or the constructor wants arguments
        raise PgcError(f"{name} cannot be made ({error})") from None
    world.name = name
    for needed in NEEDED:
        _demand(hasattr(world, needed), f"{name} has no {needed}")
    n = world.observation_dim
    boxes = len(world.observation_bounds)
    _demand(boxes == n, f"{name} has {boxes} observation_bounds, and observation_dim is {n}")
    for i, (low, high) in enumerate(world.observation_bounds):
        fine = math.isfinite(low) and math.isfinite(high) and low < high
        _demand(
            fine, f"observation_bounds[{i}] of {name} is ({low:g}, {high:g}), which is no range"
        )
    _check_methods(world)
    if isinstance(world.actions, Gaussian):
        world.step = _within(world)  # type: ignore[method-assign]
    return world


def _check_methods(world: CompiledWorld) -> None:
    """Refuses methods that do not fit together, by their shapes alone."""
    name, key = world.name, jax.random.key(0)
    psi = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), world.default_psi)
    state = _shapes(f"{name}.reset", world.reset, key, psi)
    seen = _shapes(f"{name}.observe", world.observe, state)
    shape = getattr(seen, "shape", None)
    _demand(
        shape == (world.observation_dim,),
        f"{name}.observe returns the shape {shape}, and observation_dim is {world.observation_dim}",
    )
    continuous = isinstance(world.actions, Gaussian)
    action = jnp.zeros(world.actions.outputs) if continuous else jnp.asarray(0, jnp.int32)
    moved = _shapes(f"{name}.step", world.step, key, state, action, psi)
    _demand(isinstance(moved, Transition), f"{name}.step must return a Transition")
    for part in ("reward", "terminated"):
        shape = np.shape(getattr(moved, part))
        _demand(shape == (), f"{name}.step returns a {part} of shape {shape}, not a scalar")
    kind = jnp.result_type(moved.terminated)
    _demand(
        kind == jnp.bool_.dtype, f"{name}.step returns a terminated of type {kind}, not a boolean"
    )
    before, after = (_alike(s) for s in (state, moved.state))
    _demand(before == after, f"{name}.step returns a state that is not like that of reset")


def _alike(state: Any) -> tuple[Any, list[Any]]:
    """Returns what two states must have in common: their structure, shapes and types."""
    leaves, structure = jax.tree.flatten(state)
    return structure, [(np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]


def _shapes(what: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the shapes of what a method returns; one line if it cannot be compiled."""
    try:
        return jax.eval_shape(method, *arguments)
    except Exception as error:  # whatever a user's code does
        raise PgcError(
            f"{what} cannot be compiled by JAX ({in_one_line(error)}); see {PAGE}"
        ) from None


def _within(world: CompiledWorld) -> Callable[..., Transition]:
    """Returns the world's `step`, which gets actions within their range."""
    step, actions = world.step, world.actions
    assert isinstance(actions, Gaussian)
    low, high = jnp.asarray(actions.low), jnp.asarray(actions.high)

    def bounded(key: jax.Array, state: Any, action: jax.Array, psi: Any) -> Transition:
        return step(key, state, jnp.clip(action, low, high), psi)

    return bounded


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise PgcError(f"{what}; see {PAGE}")
