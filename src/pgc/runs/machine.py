"""Describes the machine that made a result, which decides its speed and its last bits."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax


def machine() -> dict[str, Any]:
    """Returns facts about this machine.

    Runs with the same seed are bit for bit the same on machines that agree on `DECIDE_BITS`.
    """
    return {
        "backend": jax.default_backend(),
        "cpu": _cpu("model name") or platform.processor() or platform.machine(),
        "cpu_features": hashlib.sha256(_cpu("flags").encode()).hexdigest()[:12],
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jaxlib": version("jaxlib"),
    }


DECIDE_BITS = ("backend", "cpu", "cpu_features", "jaxlib")


def _cpu(field: str) -> str:
    """Returns a field of Linux's /proc/cpuinfo; an empty string on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(
            (line.partition(":")[2].strip() for line in lines if line.startswith(field)), ""
        )
    except OSError:
        return ""
