"""`pgc reproduce` as a user meets it: stopped, continued, what it leaves, and what it says when it is used wrongly."""

import json
import re
from contextlib import contextmanager

import pytest

from pgc.cli.main import main
from pgc.runs import sweep
from pgc.studies import study
from pgc.studies.reproduction import paper
from pgc.studies.reproduction.claims import CLAIMS
from pgc.studies.reproduction.plan import TITLES
from tests.cli.test_cli import refused
from tests.length import SOAK

pytestmark = [
    pytest.mark.soak,
    # Where single tests are distributed, these stay together.
    pytest.mark.xdist_group("one reproduction"),
]
SMALL = ["reproduce", "--trials", "2", "--submissions", "300", "--seed", "3"]
FIGURES = {"success", "fst", "auc"} | {f"figure{n}-{key}" for n in (2, 3) for key in TITLES}


@pytest.fixture(scope="module", autouse=True)
def one_cell_for_all():
    """Runs the first cell, and takes its outcome for that of all the others: their nineteen programs take minutes to compile.

    What each cell runs is tested in `test_reproduction.py`; `make soak` runs them all.
    """
    run = sweep.run

    def one(cells, folder, **given):
        outcomes = run(cells[:1], folder, **given)
        return outcomes and {cell.name: outcomes[cells[0].name] for cell in cells}

    with pytest.MonkeyPatch.context() as patch:
        if not SOAK:
            patch.setattr(sweep, "run", one)
        yield


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A small reproduction, stopped after the first look."""

    @contextmanager
    def at_once():
        yield lambda: True

    path = tmp_path_factory.mktemp("runs") / "reproduce"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "stop_signals", at_once)
        assert main([*SMALL, "--out", str(path)]) == 130
    return path


@pytest.fixture(scope="module")
def finished(stopped):
    assert {p.name for p in stopped.iterdir()} == {
        "config.yaml",
        "figures",
        "checkpoint.safetensors",
    }
    assert main(["reproduce", "--resume", str(stopped)]) == 0
    return stopped


def test_it_leaves_the_report_the_figures_and_every_cell(finished):
    names = {p.name for p in finished.iterdir()}
    assert names == {
        "config.yaml",
        "figures",
        "outcomes.safetensors",
        "privacy.json",
        "report.html",
        "summary.json",
    }
    assert {p.name for p in (finished / "figures").iterdir()} == {
        f"{f}.{kind}" for f in FIGURES for kind in ("png", "svg")
    }
    summary = json.loads((finished / "summary.json").read_text())
    assert (
        summary["command"] == "pgc reproduce --trials 2 --submissions 300 --seed 3"
        and summary["seconds"] > 0
    )
    assert len(summary["cells"]) == 3 * len(paper.CELLS) and len(summary["claims"]) == len(CLAIMS)
    for cell in summary["cells"]:
        assert len(cell["fst"]) == len(cell["control_fst"]) == 2
        for quantity in ("success_ratio", "fst_median", "relative_auc"):
            assert {"paper", "ours", "interval", "control", "consistent"} <= set(cell[quantity])
        nominal = cell["epsilon"] or float("inf")
        times = 112 if (cell["reading"], cell["mechanism"]) == ("closest", "laplace") else 1
        assert (cell["true_epsilon"] or float("inf")) == nominal * times
    privacy = json.loads((finished / "privacy.json").read_text())["cells"]
    assert privacy["printed/laplace-2"]["honest"] and privacy["closest/laplace-2"]["epsilon"] == 224


def test_the_report_opens_offline_says_that_it_is_a_quick_look_and_has_every_number(finished):
    page = (finished / "report.html").read_text()
    assert not re.search(r'(?:src|href)="(?!data:)', page) and "http" not in re.sub(
        r"data:image/png;base64,[^\"]+", "", page
    )
    assert page.count("data:image/png") == len(FIGURES)
    assert (
        "QUICK LOOK" in page
        and "viewport" in page
        and "None" not in page
        and "nan" not in re.sub(r"base64,[^\"]+", "", page)
    )
    assert "18,377" in page and "0.771" in page and "truly 1120" in page
    for name in FIGURES:
        svg = (finished / "figures" / f"{name}.svg").read_text()
        assert "<!-- QUICK LOOK" in svg  # matplotlib keeps the words of a text beside its outlines


def test_json_prints_the_summary_alone_and_a_finished_folder_gets_its_report_anew(finished, capsys):
    (finished / "report.html").unlink()
    assert main(["reproduce", "--resume", str(finished), "--json"]) == 0
    said = capsys.readouterr()
    assert (
        json.loads(said.out) == json.loads((finished / "summary.json").read_text())
        and said.err == ""
    )
    assert (finished / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trials", "1"], "at least 2"),
        (["--submissions", "5"], "at least 100"),
        (["--submissions", "60000000"], "submissions must be fewer"),
        (["--seed", "-1"], "seed must be between"),
        (["--trials", "many"], "--help lists the flags"),
        (["--resume", "nowhere"], "not a folder that pgc reproduce made"),
        (["--resume", "nowhere", "--trials", "9"], "drop --trials"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, "reproduce", *arguments)
    assert not list(tmp_path.iterdir())


def test_another_folder_is_neither_continued_nor_overwritten(finished, capsys, tmp_path):
    assert "not empty" in refused(capsys, *SMALL, "--out", finished)
    (tmp_path / "config.yaml").write_text("trials: 3\n")
    assert "not a folder that pgc reproduce made" in refused(
        capsys, "reproduce", "--resume", tmp_path
    )
