"""Runs `pgc` in a process that sends itself a signal at a chosen moment, so that a test does not race with it:

    python -m tests.signalled SIGKILL checkpoint.safetensors 3 train --out FOLDER …

runs `pgc train …` and sends it SIGKILL just before it puts a file of that name in its place for the third time. The engine looks
at what happened more often than usual (which changes no result), so that short runs have several checkpoints.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

TURNS = 64
"""Turns between two looks."""


def start(name: str, file: str, times: int, *arguments: str | Path) -> subprocess.Popen[str]:
    """Starts such a process."""
    command = [
        sys.executable,
        "-m",
        "tests.signalled",
        name,
        file,
        str(times),
        *map(str, arguments),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main(name: str, file: str, times: str, *arguments: str) -> int:
    left = int(times)

    def hook(event: str, details: tuple[object, ...]) -> None:
        nonlocal left
        if (
            event == "os.rename" and os.path.basename(str(details[1])) == file
        ):  # `os.replace` has this event too
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.Signals[name])

    sys.addaudithook(hook)
    from pgc.cli.main import main as pgc
    from pgc.engines import compiled_simulation

    compiled_simulation.MOST_TURNS = TURNS
    return pgc(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
