"""Makes a Gymnasium environment for one ψ, by constructor arguments or by pinned attributes.

If an attribute were changed after construction, the values that the constructor derived from it
would be stale: CartPole's `total_mass` would still be that of the default pole. So attributes are
*pinned while the constructor runs*: whenever it assigns a pinned attribute, our value is stored
instead, and the values derived from it are right, in any environment.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pgc.errors import PgcError, in_one_line, load, require

Number = int | float


@dataclass(frozen=True)
class Creator:
    """Makes environments of one kind."""

    name: str
    make: Callable[..., Any]
    """The environment's class, or a function that returns one."""
    arguments: dict[str, Any]
    """The arguments with which the environment is registered."""
    spec: Any = None
    """Gymnasium's spec of the environment, if it is registered."""
    _kept: set[str] = field(default_factory=set)
    """The attributes that are known to keep a pinned value."""

    def create(self, changes: dict[str, float], *, render: bool = False) -> Any:
        """Returns an environment whose ψ differs from the default in these fields."""
        accepted = self._accepted
        usual = self.usual if changes else {}
        changes = {
            k: int(v) if isinstance(usual[k], int) and v == int(v) else v
            for k, v in changes.items()
        }
        given = {**self.arguments, **{k: v for k, v in changes.items() if k in accepted}}
        pins = {k: v for k, v in changes.items() if k not in accepted}
        if render:
            given["render_mode"] = "rgb_array"

        def make(**arguments: Any) -> Any:
            return pinned(self.make, pins, arguments) if pins else self.make(**arguments)

        try:
            env = (
                self._wrapped(make, given)
                if self.spec is not None and self.spec.additional_wrappers
                else make(**given)
            )
        except PgcError:
            raise
        except Exception as error:
            raise PgcError(
                f"{self.name} cannot be made with {given | pins} ({in_one_line(error)})"
            ) from None
        if not self._kept.issuperset(pins):
            self._check(env, pins)
            self._kept.update(pins)
        return env

    def _check(self, env: Any, pins: dict[str, Any]) -> None:
        """Raises an error if the environment loses a pinned value when an episode begins."""
        env.reset(seed=0)
        for name, value in pins.items():
            if getattr(inside(env), name, None) != value:
                raise PgcError(
                    f"{self.name} does not keep {name} = {value:g}; vary one of its constructor's "
                    "arguments instead"
                )

    @property
    def _accepted(self) -> dict[str, Any]:
        try:
            found = inspect.signature(self.make).parameters
        except (TypeError, ValueError):
            return {}
        return {name: p.default for name, p in found.items() if p.default is not p.empty}

    @cached_property
    def usual(self) -> dict[str, Number]:
        """Every number that can be varied, with its default: arguments of the constructor, and
        attributes of the environment.

        Attributes that differ between two new environments (a time, a counter) are not part of ψ.
        """
        accepted = {k: self.arguments.get(k, v) for k, v in self._accepted.items()}
        once, again = self._attributes(), self._attributes()
        same = {k: v for k, v in once.items() if _is_number(v) and k in again and again[k] == v}
        return {
            k: v
            for k, v in (same | accepted).items()
            if _is_number(v) and k.isidentifier() and not k.startswith("_")
        }

    def _attributes(self) -> dict[str, Any]:
        env = inside(self.create({}))
        found: dict[str, Any] = {
            k: v for kind in reversed(type(env).__mro__) for k, v in vars(kind).items()
        } | vars(env)
        close(env)
        return found

    def _wrapped(self, make: Callable[..., Any], given: dict[str, Any]) -> Any:
        spec = replace(
            self.spec, entry_point=make, kwargs=given, order_enforce=False, disable_env_checker=True
        )
        return require("gymnasium", "gymnasium").make(spec, max_episode_steps=-1)


def find(name: str) -> Creator:
    """Returns the creator for `gymnasium:ID`, for `gymnasium:MODULE:ID` whose module registers ID
    when it is imported, or for MODULE:CLASS of a user's own environment.
    """
    gymnasium = require("gymnasium", "gymnasium")
    family, _, of = name.partition(":")
    if family != "gymnasium":
        return Creator(name, load(name, "world"), {})
    module, _, registered = of.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        spec = gymnasium.spec(registered)
        make = spec.entry_point
        return Creator(
            name,
            gymnasium.envs.registration.load_env_creator(make) if isinstance(make, str) else make,
            spec.kwargs,
            spec,
        )
    # Gymnasium's own errors, ImportError of a namespace, and what an environment's module raises
    except Exception as error:
        raise PgcError(f"Gymnasium has no environment '{of}' here ({in_one_line(error)})") from None


def pinned(kind: Any, pins: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Returns an environment whose constructor saw the pinned values in place of its own."""
    if not isinstance(kind, type):
        raise PgcError(
            f"only arguments of {getattr(kind, '__name__', kind)} can be varied, not "
            f"{', '.join(pins)}"
        )

    def keep(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, pins.get(name, value))

    of_class = {k: v for k, v in pins.items() if hasattr(kind, k)}
    env = type(
        kind.__name__, (kind,), {**of_class, "__setattr__": keep, "__module__": kind.__module__}
    )(**arguments)
    env.__class__ = kind  # from here on it is like any other environment, and as fast
    for name, value in of_class.items():
        setattr(env, name, value)
    return env


def inside(env: Any) -> Any:
    """Returns the environment itself, without wrappers."""
    return getattr(env, "unwrapped", env)


def close(env: Any) -> None:
    """Closes an environment, and ignores any error."""
    try:
        env.close()
    except Exception:
        return


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
