"""Private Gradient Collection: locally private distributed reinforcement learning.

The four steps of the paper are four folders: `deliver`, `local_training`, `randomise`, `update`.
Names are imported when they are first used, so that a device, which needs NumPy alone, does not
load a training stack.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pgc.errors import BudgetSpent, PgcError, require

if TYPE_CHECKING:
    from pgc.config import PRESETS, TrainConfig, configure
    from pgc.device import Device, Ledger, Refusal
    from pgc.runs.evaluate import compare, evaluate
    from pgc.runs.export import export
    from pgc.runs.load import load
    from pgc.runs.pretrain import pretrain
    from pgc.runs.run import Run
    from pgc.runs.train import train
    from pgc.studies.reproduction.reproduce import reproduce
    from pgc.wire import Offer, Query, Report

__version__ = "0.1.0"

_LAZY = {
    "Device": "pgc.device",
    "Ledger": "pgc.device",
    "Offer": "pgc.wire",
    "Query": "pgc.wire",
    "Refusal": "pgc.device",
    "Report": "pgc.wire",
    "PRESETS": "pgc.config",
    "TrainConfig": "pgc.config",
    "configure": "pgc.config",
    "Run": "pgc.runs.run",
    "reproduce": "pgc.studies.reproduction.reproduce",
    "pretrain": "pgc.runs.pretrain",
    "train": "pgc.runs.train",
    "evaluate": "pgc.runs.evaluate",
    "export": "pgc.runs.export",
    "load": "pgc.runs.load",
    "compare": "pgc.runs.evaluate",
}

PUBLIC = {
    "mechanisms": ("randomise.mechanisms.registry", "randomise.mechanisms"),
    "worlds": ("local_training.worlds.registry", "local_training.worlds"),
    "policies": (
        "local_training.policies.actor_critic",
        "local_training.recipe",
        "local_training.estimators.loss",
        "local_training.policies",
    ),
    "callbacks": ("runs.callbacks",),
    "device.play": ("local_training.numpy_player",),
    "device.recipe": ("local_training.recipe",),
    "problem": ("config.problem",),
}
"""The short public modules, such as `pgc.mechanisms`, each with the modules of pgc in which its
attributes are looked up, in this order. The last one is the package that holds its submodules."""


class _Door(ModuleType):
    """A short public module. Its attributes are those of the modules that `PUBLIC` lists for it."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for place in PUBLIC.get(self.__name__.removeprefix("pgc."), ()):
                module = require("pgc." + place, "train")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


class _Doors(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import hook for the short public names in `PUBLIC`.

    `pgc.mechanisms` becomes a `_Door`. `pgc.mechanisms.laplace` becomes an alias of the module
    `pgc.randomise.mechanisms.laplace`.
    """

    def __init__(self) -> None:
        self._lives: dict[str, importlib.machinery.ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Says who makes a module: this one, if it has a short public name or lies behind one."""
        name = fullname.removeprefix("pgc.")
        if fullname != name and (name in PUBLIC or name.partition(".")[0] in PUBLIC):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=name in PUBLIC)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Returns the door, or the module that lies behind it."""
        name = spec.name.removeprefix("pgc.")
        if name in PUBLIC:
            return _Door(spec.name)
        door, _, inside = name.partition(".")
        try:
            module = importlib.import_module(f"pgc.{PUBLIC[door][-1]}.{inside}")
            self._lives[spec.name] = module.__spec__
            return module
        except ModuleNotFoundError as error:
            if error.name != f"pgc.{PUBLIC[door][-1]}.{inside}":
                raise
            raise ModuleNotFoundError(f"No module named '{spec.name}'", name=spec.name) from None

    def exec_module(self, module: ModuleType) -> None:
        """Restores the module's own spec: it was already executed under its full name."""
        spec = module.__spec__
        if spec is not None and spec.name in self._lives:
            module.__spec__ = self._lives.pop(spec.name)


sys.meta_path.append(_Doors())  # last: it is asked only for what is not found otherwise


def __getattr__(name: str) -> Any:
    if name in PUBLIC or name == "device":
        return importlib.import_module(f"pgc.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'pgc' has no attribute '{name}'")
    return getattr(require(_LAZY[name], "train"), name)


def __dir__() -> list[str]:
    """Returns the public names, so that completion finds them before they are imported."""
    modules = {"device", *(name for name in PUBLIC if "." not in name)}
    return sorted({*__all__, *modules, *(name for name in globals() if name.startswith("__"))})


__all__ = [
    "PRESETS", "BudgetSpent", "Device", "Ledger", "Offer", "PgcError", "Query", "Refusal", "Report",
    "Run", "TrainConfig", "compare", "configure", "evaluate", "export", "load", "pretrain",
    "reproduce", "train",
]  # fmt: skip
