"""Short public names keep working, whatever folder a thing lives in."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

ROOT = Path(__file__).parents[1]


def imports(source: str) -> list[tuple[str, str]]:
    """The names that some Python imports from pgc, as (module, name)."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pgc":
            found += [(node.module, alias.name) for alias in node.names]
    return found


def documented() -> list[tuple[str, str]]:
    found = set()
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            found |= set(imports(code))
    for example in (ROOT / "examples").glob("*.py"):
        found |= set(imports(example.read_text()))
    return sorted(found)


def test_the_documentation_imports_something():
    assert {module for module, _ in documented()} >= {
        "pgc.mechanisms",
        "pgc.policies.own",
        "pgc.service.client",
    }


@pytest.mark.parametrize(("module", "name"), documented())
def test_what_docs_and_examples_import_is_there(module, name):
    assert hasattr(importlib.import_module(module), name)


BEFORE = {  # names of before there were folders for the four steps
    "pgc.mechanisms": (
        "MECHANISMS",
        "Guarantee",
        "Laplace",
        "Mechanism",
        "NormLift",
        "ScoreBit",
        "best",
        "fitted",
        "register",
    ),
    "pgc.mechanisms.laplace": ("Laplace",),
    "pgc.worlds": (
        "WORLDS",
        "CartPole",
        "CompiledWorld",
        "Population",
        "Transition",
        "World",
        "make_world",
    ),
    "pgc.worlds.cartpole": ("CartPole",),
    "pgc.policies": ("ActorCritic", "Episode", "LossOptions"),
    "pgc.policies.own": ("from_equinox", "from_flax", "from_function", "from_torch"),
    "pgc.device": ("Device", "Ledger", "LedgerError", "Refusal"),
    "pgc.device.play": ("NumpyPlayer",),
    "pgc.device.recipe": ("Recipe",),
    "pgc.problem": ("build",),
    "pgc.config": ("PRESETS", "TrainConfig", "configure", "from_yaml", "to_yaml"),
    "pgc.wire": ("Malformed", "Offer", "Query", "Report"),
}


@pytest.mark.parametrize("module", BEFORE)
def test_names_of_before_are_there(module):
    found = importlib.import_module(module)
    assert [name for name in BEFORE[module] if not hasattr(found, name)] == []


def test_a_short_name_is_no_copy():
    import pgc.mechanisms.clip

    import pgc.randomise.mechanisms.clip

    assert pgc.mechanisms.clip is pgc.randomise.mechanisms.clip
    assert pgc.mechanisms.clip.__spec__.name == "pgc.randomise.mechanisms.clip"
    assert pgc.mechanisms.best(4, 1.0).epsilon == 1.0
    with pytest.raises(ModuleNotFoundError, match=r"pgc\.mechanisms\.nothing"):
        importlib.import_module("pgc.mechanisms.nothing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = pgc.mechanisms.nothing
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = pgc.nothing


def test_a_device_loads_numpy_alone():
    code = (
        "import sys, pgc; pgc.Device, pgc.mechanisms.best, pgc.Offer; from pgc.device.play import NumpyPlayer; "
        "print(sorted({'jax', 'scipy', 'yaml', 'matplotlib', 'tyro', 'gymnasium'} & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert told.stdout.strip() == "[]"
