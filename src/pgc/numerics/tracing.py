"""Separates what a compiled program takes as an argument from what it is compiled for.

A *number* (C, the scale of the noise, η, |B|, N, whether this is a control) is traced: one program
serves all its values, and trials that differ in numbers alone run side by side in it. A *choice*
(which mechanism, which loss, d, d̂, W) shapes the program. Two runs share one program exactly when
their engines have the same `jax.tree.structure`.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Protocol

import jax
import numpy as np


class HasNumbers(Protocol):
    """A frozen dataclass that says which of its numbers are traced, such as a mechanism."""

    traced: ClassVar[dict[str, type[np.generic]]]
    nested: ClassVar[tuple[str, ...]]


def trace_numbers(value: HasNumbers) -> None:
    """Registers the class of a value, and the classes of its nested values, as JAX trees.

    The leaves of such a tree are the numbers that the class names in `traced`.
    """
    _trace_kind(type(value))
    for name in value.nested:
        trace_numbers(getattr(value, name))


@cache
def _trace_kind(kind: Any) -> None:
    """Registers a class as a JAX tree whose leaves are its `traced` numbers and `nested` values.

    The other fields shape the program, except for ε and C, which are left out if they are not
    traced. A mechanism that JAX makes again from its leaves is therefore not validated and has no
    ε; it can only prepare, draw and decode.
    """
    inside = (*kind.traced, *kind.nested)
    shapes = tuple(f.name for f in fields(kind) if f.name not in (*inside, "epsilon", "clip"))

    def flatten(mechanism: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        numbers = ((getattr(mechanism, name), dtype) for name, dtype in kind.traced.items())
        typed = tuple(
            np.asarray(n, dtype)[()] if isinstance(n, int | float | np.ndarray) and dtype else n
            for n, dtype in numbers
        )
        return (*typed, *(getattr(mechanism, name) for name in kind.nested)), tuple(
            getattr(mechanism, name) for name in shapes
        )

    def unflatten(shape: tuple[Any, ...], numbers: tuple[Any, ...]) -> Any:
        made = object.__new__(kind)
        for name, value in zip((*shapes, *inside), (*shape, *numbers), strict=True):
            object.__setattr__(made, name, value)
        return made

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


def trace_fields(kind: type[Any], *numbers: str) -> None:
    """Registers a dataclass as a JAX tree whose leaves are these fields; the others are choices."""
    jax.tree_util.register_dataclass(
        kind, numbers, [f.name for f in fields(kind) if f.name not in numbers]
    )
