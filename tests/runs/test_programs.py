"""Compiled programs are kept on the disk, and found again by the next process."""

import os
import subprocess
import sys

from tests.waiting import LIMIT

COMPILE = """
import jax
from pgc.runs import programs
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
programs.SHORTEST = 0.0  # keep even what takes no time
programs.keep_programs()
jax.jit(lambda x: x * 2 + 1)(3.0).block_until_ready()
print(events.count("/jax/compilation_cache/cache_hits"))
"""


def found(cache, **environment) -> int:
    """Compile in a new process, and return how many programs it found in the cache."""
    ran = subprocess.run(
        [sys.executable, "-c", COMPILE], check=True, capture_output=True, text=True, timeout=LIMIT,
        env={name: value for name, value in os.environ.items() if name not in ("JAX_COMPILATION_CACHE_DIR", "PGC_KEEP_PROGRAMS")}
        | {"XDG_CACHE_HOME": str(cache)} | environment,
    )  # fmt: skip
    return int(ran.stdout)


def test_the_next_process_finds_what_was_compiled(tmp_path):
    assert found(tmp_path) == 0
    (kept,) = (tmp_path / "pgc" / "programs").iterdir()
    assert "jaxlib" in kept.name and any(kept.iterdir())
    assert found(tmp_path) > 0


def test_keeping_programs_can_be_switched_off(tmp_path):
    assert found(tmp_path, PGC_KEEP_PROGRAMS="0") == 0
    assert not list(tmp_path.iterdir())
    theirs = tmp_path / "theirs"
    found(tmp_path, JAX_COMPILATION_CACHE_DIR=str(theirs))
    assert theirs.exists() and not (tmp_path / "pgc").exists()
