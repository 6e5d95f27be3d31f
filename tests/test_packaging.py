"""What `pip install pgc` gives: everything that the package needs, and nothing of the repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import pgc
from tests.waiting import LIMIT

pytestmark = pytest.mark.more
ROOT = Path(__file__).parents[1]
NEEDED = (
    "pgc/py.typed",
    "pgc/service/page.html",
    "pgc/studies/templates",
    "pgc/studies/reproduction/templates",
    "pgc/studies/frontier/templates",
    "pgc/studies/suite/templates",
)


def done(*command, **how):
    """Run a command that must succeed, and return what it prints."""
    ran = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, **how
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the source distribution."""
    for name in ("build", "twine"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("dist")
    copy = folder / "source"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    for name in ("src", "README.md", "LICENSE", "pyproject.toml"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy)
    done(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "made", copy)
    return folder / "made"


def test_wheel_and_source_have_what_they_need(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    in_wheel = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(source) as opened:
        in_source = opened.getnames()
    for name in NEEDED:
        assert any(found.startswith(name) for found in in_wheel), name
        assert any(f"/src/{name}" in found for found in in_source), name
    assert not [name for name in in_wheel if not name.startswith(("pgc/", "pgc-"))]
    done(sys.executable, "-m", "twine", "check", "--strict", wheel, source)


def test_it_works_without_the_repository(built, tmp_path):
    """Installed into an environment of its own, with the packages that it depends on beside it."""
    done(sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare")
    python = tmp_path / "bare" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    paths = done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    done(*install, "--target", paths, wheel)
    # the packages of this environment, but not pgc, of which it has only a reference to the repository
    Path(paths, "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    where = done(python, "-c", "import pgc; print(pgc.__file__)", cwd=tmp_path, env=clean)
    assert Path(where.strip()).is_relative_to(tmp_path)
    said = done(python, "-m", "pgc.cli", "--version", cwd=tmp_path, env=clean)
    assert said.strip() == f"pgc {pgc.__version__}"
    small = ("--submissions", 20, "--eval-episodes", 2, "--local-episodes", 1, "--out", "run")
    done(python, "-m", "pgc.cli", "train", *small, cwd=tmp_path, env=clean)
    assert (tmp_path / "run" / "summary.json").exists()
    done(python, "-m", "pgc.cli", "inspect", "run", cwd=tmp_path, env=clean)
