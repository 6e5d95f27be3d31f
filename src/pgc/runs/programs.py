"""Keeps compiled programs on the disk, so that the second run of a kind starts at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax

from pgc.runs.machine import machine

OFF = "PGC_KEEP_PROGRAMS"
"""The environment variable that switches this off, if it is 0."""
SHORTEST = 0.2
"""Programs that took fewer seconds to compile are not kept."""


def keep_programs() -> None:
    """Makes JAX keep what it compiles in the user's cache folder, for machines of this type.

    Programs are the same bits as those compiled anew. A folder that the user has set
    (JAX_COMPILATION_CACHE_DIR) is left alone, and with PGC_KEEP_PROGRAMS=0 nothing is kept. The
    folder may be deleted at any time.
    """
    config: Any = jax.config
    if os.environ.get(OFF) == "0" or config.jax_compilation_cache_dir is not None:
        return
    about = machine()  # a program of another processor might not run here
    kind = f"{about['backend']}-{about['cpu_features']}-jaxlib-{about['jaxlib']}"
    config.update("jax_compilation_cache_dir", str(cache_folder() / kind))
    config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)


def cache_folder() -> Path:
    """Returns the folder in which programs are kept, for all types of machine."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pgc" / "programs"
