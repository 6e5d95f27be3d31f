"""Calls one function in a process of its own, so that its memory goes when it returns: what needs
JAX for a moment need not keep it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from pgc.errors import PgcError


def call_apart(work: Callable[..., None], *given: Any) -> None:
    """Calls `work(*given)`, and raises here what it raises there."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pgc.cli.apart"],
        input=pickle.dumps((work, given)),
        stdout=subprocess.PIPE,
        check=False,
    )
    if not done.stdout:
        raise PgcError(f"a process that was started for this has ended ({done.returncode})")
    if (raised := pickle.loads(done.stdout)) is not None:
        raise raised


def main() -> None:
    """Does what standard input says, and answers on standard output."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed meanwhile is no answer
    raised = None
    try:
        work, given = pickle.load(sys.stdin.buffer)
        work(*given)
    except Exception as error:
        raised = error
    with answer:
        pickle.dump(raised, answer)


if __name__ == "__main__":
    main()
