"""What the documentation tells people to do works, literally."""

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_on_adding_a_mechanism(tmp_path):
    page = (DOCS / "add-a-mechanism.md").read_text()
    module, check, train = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len([line for line in module.split("class OneCoordinate")[1].splitlines() if line.strip()]) <= 36  # about thirty lines
    (tmp_path / "one_coordinate.py").write_text(module)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for code in (check, train):
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    (command,) = re.findall(r"^    PYTHONPATH=\. pgc (.*)$", page, re.MULTILINE)
    made = subprocess.run(
        [sys.executable, "-m", "pgc.cli", *command.split(), "--json"],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert '"mechanism": "one-coordinate"' in made.stdout
