"""On what a result was made: what decides its speed and its last bits."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax


def machine() -> dict[str, Any]:
    """Runs of one seed are bit for bit the same where `backend`, `cpu` and `jaxlib` are."""
    return {
        "backend": jax.default_backend(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jaxlib": version("jaxlib"),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
