"""Imports point one way, from the command line down to the four steps and below (the contracts are in pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

from tests.waiting import LIMIT


def test_the_contracts_are_kept():
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    told = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
