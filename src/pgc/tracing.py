"""What a compiled program takes as an argument, and what it is compiled for.

A *number* (C, the scale of the noise, |B|, N, whether this is a control) is traced: one program serves all its values, and
trials that differ in numbers alone run side by side in it. A *choice* (which mechanism, which loss, d, d̂, W) shapes the program.
Two runs share one program exactly when their engines have the same `jax.tree.structure`.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import jax

from pgc.mechanisms import Mechanism


@cache
def trace_mechanism(kind: type[Mechanism]) -> None:
    """Make a mechanism a JAX tree whose leaves are its `traced` numbers. Of the rest, ε and C are left out: they are not shapes.

    A mechanism that is made anew from traced numbers is therefore not validated and has no ε: it can prepare, draw and decode.
    """
    shapes = tuple(f.name for f in fields(kind) if f.name not in (*kind.traced, "epsilon", "clip"))

    def flatten(mechanism: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        numbers = ((getattr(mechanism, name), dtype) for name, dtype in kind.traced.items())
        typed = tuple(dtype(number) if isinstance(number, int | float) else number for number, dtype in numbers)
        return typed, tuple(getattr(mechanism, name) for name in shapes)

    def unflatten(shape: tuple[Any, ...], numbers: tuple[Any, ...]) -> Any:
        made = object.__new__(kind)
        for name, value in zip((*shapes, *kind.traced), (*shape, *numbers), strict=True):
            object.__setattr__(made, name, value)
        return made

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


def trace_fields(kind: type[Any], *numbers: str) -> None:
    """Make a dataclass a JAX tree whose leaves are these fields; the others are choices."""
    jax.tree_util.register_dataclass(kind, numbers, [f.name for f in fields(kind) if f.name not in numbers])
