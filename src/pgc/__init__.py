"""Private Gradient Collection: locally private distributed reinforcement learning.

Names are imported when first used, so that a device which needs only the mechanisms does not load a training stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgc.errors import BudgetSpent, PgcError, require

if TYPE_CHECKING:
    from pgc.config import PRESETS, TrainConfig, configure
    from pgc.device import Device, Ledger, Refusal
    from pgc.experiments.reproduction.reproduce import reproduce
    from pgc.experiments.runs import Run
    from pgc.experiments.scoring import compare, evaluate
    from pgc.experiments.training import train
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
    "Run": "pgc.experiments.runs",
    "reproduce": "pgc.experiments.reproduction.reproduce",
    "train": "pgc.experiments.training",
    "evaluate": "pgc.experiments.scoring",
    "compare": "pgc.experiments.scoring",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pgc' has no attribute '{name}'")
    return getattr(require(_LAZY[name], "train"), name)


__all__ = [
    "PRESETS", "BudgetSpent", "Device", "Ledger", "Offer", "PgcError", "Query", "Refusal", "Report", "Run", "TrainConfig",
    "compare", "configure", "evaluate", "reproduce", "train",
]  # fmt: skip
