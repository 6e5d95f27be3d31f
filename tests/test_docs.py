"""What the documentation tells people to do works, literally."""

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_on_adding_a_mechanism(tmp_path):
    page = (DOCS / "add-a-mechanism.md").read_text()
    module, check, train = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert (
        len([line for line in module.split("class OneCoordinate")[1].splitlines() if line.strip()])
        <= 36
    )  # about thirty lines
    (tmp_path / "one_coordinate.py").write_text(module)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for code in (check, train):
        run = [sys.executable, "-c", code]
        subprocess.run(
            run, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=LIMIT
        )
    for command, expected in zip(
        re.findall(r"^    pgc (.*one_coordinate:.*)$", page, re.MULTILINE),
        ('"mechanism": "one-coordinate"', '"passed": true'),
        strict=True,
    ):
        made = subprocess.run(
            [sys.executable, "-m", "pgc.cli", *command.split(), "--json"],
            cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        assert expected in made.stdout


def test_the_page_on_adding_a_world(tmp_path):
    page = (DOCS / "add-a-world.md").read_text()
    module, use = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "tank.py").write_text(module)
    (shell,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for command in shell.splitlines():
        run = [sys.executable, "-m", "pgc.cli", *command.split()[1:], "--json"]
        made = subprocess.run(
            run, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=LIMIT
        )
        if "train" in command:
            score = json.loads(made.stdout)["averaged_score_mean"]
            assert score > 95  # the level is held
    use += "\nassert valve in (0, 1)"
    subprocess.run([sys.executable, "-c", use], cwd=tmp_path, check=True, timeout=LIMIT)
    cannot = [sys.executable, "-m", "pgc.cli", "train", "--world", "tank:Tank", "--gif"]
    refused = subprocess.run(cannot, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert refused.returncode == 2 and "give it a method sketch" in refused.stderr
    cannot[-1:] = ["--population", "colour=1,2"]
    refused = subprocess.run(cannot, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert refused.returncode == 2 and "FIELD one of leak" in refused.stderr


def test_the_page_on_gymnasium(tmp_path):
    page = (DOCS / "worlds.md").read_text()
    [module] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "ferry.py").write_text(module)
    [shell] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for command in shell.splitlines():
        run = [sys.executable, "-m", "pgc.cli", *command.split()[1:], "--json"]
        made = subprocess.run(
            run, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=LIMIT
        )
        if "train" in command:
            said = json.loads(made.stdout)
            assert said["averaged_score_mean"] > 30 and not said["warnings"]
    act = "import pgc; assert pgc.load('ferry').act([0.4, -0.1]) in (0, 1, 2)"
    subprocess.run([sys.executable, "-c", act], cwd=tmp_path, check=True, timeout=LIMIT)


def test_the_page_on_devices(tmp_path):
    code = "\n".join(
        re.findall(r"```python\n(.*?)```", (DOCS / "devices.md").read_text(), re.DOTALL)
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT
    )


def test_every_name_in_the_documentation_exists():
    """`module:name` on the pages for reviewers can be imported."""
    found = set()
    for page in DOCS.glob("*.md"):
        found |= set(re.findall(r"`(pgc(?:\.\w+)+):([\w.]+)`", page.read_text()))
    assert len(found) > 20
    for module, name in sorted(found):
        thing = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)


def test_links_in_the_documentation_lead_somewhere():
    root = DOCS.parent
    for page in [*DOCS.glob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_file_in_the_documentation_exists():
    """`folder/file.py` on any page is a file of the repository, or of the package."""
    root = DOCS.parent
    files = {
        str(path.relative_to(root)) for path in root.glob("*/**/*.py") if ".venv" not in path.parts
    }
    for page in [*DOCS.glob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]:
        for named in re.findall(r"`([\w/]+/\w+\.py)`", page.read_text()):
            assert any(f"/{file}".endswith(f"/{named}") for file in files), f"{page.name}: {named}"
        for named in re.findall(r"(?<![\w/`])tests/[\w/]+(?:\.py)?", page.read_text()):
            assert (root / named).exists(), f"{page.name}: {named}"


def test_every_test_that_the_documentation_names_exists():
    """`tests/file.py::test_name`, and `::test_name` of the file that was named last."""
    root, found = DOCS.parent, 0
    for page in DOCS.glob("*.md"):
        file = None
        for named, test in re.findall(r"(tests/[\w/]+\.py)?::(test_\w+)", page.read_text()):
            file = named or file
            assert f"def {test}(" in (root / file).read_text(), f"{page.name}: {file}::{test}"
            found += 1
    assert found > 50


TOUR = ("first-hour", "use-a-policy", "run-folder", "figures", "watch-a-run")


@pytest.mark.more
def test_the_pages_of_the_first_hour(tmp_path):
    """Each command, and then the Python of each page, one page after the other in one folder, as a reader would."""
    needed = {
        "to torch": "torch",
        "to onnx": "onnx",
        "import pandas": "pandas",
        "TensorBoard": "tensorboard",
    }
    for page in TOUR:
        code = ["import pgc"]
        for language, block in re.findall(
            r"```(sh|python)\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL
        ):
            if any(
                word in block and not importlib.util.find_spec(module)
                for word, module in needed.items()
            ):
                pytest.skip("an extra is missing; make test-all has them")
            if language == "python":
                code.append(block)
                continue
            for command in block.splitlines():
                run = [sys.executable, "-m", "pgc.cli", *command.split()[1:]]
                subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT)
        subprocess.run(
            [sys.executable, "-c", "\n".join(code)],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=LIMIT,
        )
        shutil.rmtree(tmp_path / "more", ignore_errors=True)  # which two pages make


@pytest.mark.more
def test_the_site_needs_nothing_from_elsewhere(tmp_path):
    """It is built strictly: a link or an anchor that leads nowhere, or a page that is not in the menu, is an error."""
    pytest.importorskip("mkdocs")
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    subprocess.run(build, cwd=DOCS.parent, check=True, capture_output=True, timeout=LIMIT)
    pages = [page for page in (tmp_path / "site").rglob("*.html") if "results" not in page.parts]
    assert len(pages) > 25
    for page in pages:
        fetched = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//",
            page.read_text(),
        )
        assert not fetched, page.name
    listed = (tmp_path / "site" / "llms.txt").read_text()
    assert (
        all((tmp_path / "site" / name).exists() for name in re.findall(r"\]\((.*?\.md)\)", listed))
        and "wire.md" in listed
    )
    assert "pgc.train" in (tmp_path / "site" / "search" / "search_index.js").read_text()


@pytest.mark.more
@pytest.mark.parametrize(
    "notebook",
    sorted((DOCS.parent / "examples" / "notebooks").glob("*.py")),
    ids=lambda path: path.stem,
)
def test_the_notebooks_run(notebook, tmp_path):
    jupytext, nbclient = pytest.importorskip("jupytext"), pytest.importorskip("nbclient")
    nbclient.NotebookClient(
        jupytext.read(notebook),
        timeout=LIMIT,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
