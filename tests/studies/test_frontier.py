"""`pgc frontier`: every way at every ε with its control, and a folder that says so."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pgc.cli.main import main
from pgc.config import configure
from pgc.config.problem import build
from pgc.errors import PgcError
from pgc.runs import sweep
from pgc.runs.folder import Folder
from pgc.runs.machine import DECIDE_BITS, machine
from pgc.runs.sweep import Cell
from pgc.studies.frontier import plan, table
from pgc.studies.frontier.frontier import frontier

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "frontier" / "summary.json"


def size(**settings):
    return plan.Settings(
        **{
            "trials": 2,
            "submissions": 30,
            "seed": 0,
            "world": "cartpole",
            "quick": False,
            **settings,
        }
    )


def test_every_way_at_every_epsilon_has_a_control_and_is_run_once():
    cells = plan.cells(size())
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names)
    for way in plan.WAYS:
        for epsilon in plan.EPSILONS:
            for control in (False, True):
                assert plan.cell_name(way, epsilon, control) in names
    assert {0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf} == set(plan.EPSILONS)
    for cell in cells:
        problem = build(cell.config)
        assert cell.config.control == cell.name.endswith("-control")
        assert problem.randomiser.mechanism.dim == (112 if "-whole" in cell.name else 4)
        assert problem.randomiser.mechanism.guarantee.honest


def test_shared_cells_without_privacy_are_the_same_run():
    """Whatever the mechanism is called, at ε = ∞ it is `none`: the cells that share a name share a config."""
    for whole in (False, True):
        made = {
            str(build(plan.configure(**way.settings, epsilon=math.inf)).config)
            for way in plan.WAYS
            if way.whole_gradient == whole
        }
        assert len(made) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "QUICK_WAYS", plan.WAYS[:1])
        patch.setattr(plan, "QUICK_EPSILONS", (1.0,))
        out = tmp_path_factory.mktemp("runs") / "frontier"
        made = frontier(trials=3, submissions=40, quick=True, out=out)
        before = (out / "report.html").read_bytes()
        assert (
            frontier(resume=out).summary == made.summary
            and (out / "report.html").read_bytes() == before
        )
        yield made


def test_the_folder_has_everything_and_json_is_for_programs(folder):
    files = {str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file()}
    wanted = {
        "config.yaml",
        "summary.json",
        "privacy.json",
        "report.html",
        "figures/score.png",
        "figures/fst.svg",
    }
    assert wanted <= files
    summary = json.loads((folder.path / "summary.json").read_text())
    assert len(summary["cells"]) == 1 and set(summary["best"]) == {"1"}
    row = summary["cells"][0]
    assert (row["way"], row["epsilon"], row["dimension"], row["bytes_per_report"]) == (
        "index",
        1.0,
        4,
        1,
    )
    assert (
        row["reports"] == 40
        and row["bytes"] == 40
        and row["env_steps"] > 400
        and 0 <= row["p_value"] <= 1
    )
    assert (
        row["control"]["trials"] == 3 and row["averaged_good_interval"][0] <= row["averaged_good"]
    )
    privacy = json.loads((folder.path / "privacy.json").read_text())["cells"]
    assert (
        privacy["index/1"]["epsilon"] == 1.0
        and privacy["index/1"]["parameters"]["code_size"] == 256
    )
    page = (folder.path / "report.html").read_text()
    assert "QUICK LOOK" in page and "http" not in page.replace("http-equiv", "")


def test_the_choice_is_by_good_policies_then_score_then_speed():
    def row(way, good, score, fst, size=1):
        values = {
            "averaged_good": good,
            "averaged_score": score,
            "fst_median": fst,
            "bytes_per_report": size,
        }
        return {"way": way, "epsilon": 1.0, **values}

    rows = [
        row("a", 0.9, 190.0, 50),
        row("b", 1.0, 199.0, 90),
        row("c", 1.0, 200.0, 80, 16),
        row("d", 1.0, 200.0, 80, 1),
    ]
    assert table.best(rows, 1.0)["way"] == "d"
    for r, scores in zip(
        rows, ([50.0] * 9, [199.0, 200.0] * 9, [200.0] * 18, [200.0] * 18), strict=True
    ):
        r["averaged"] = scores
    assert [r["way"] for r in table.as_good(rows, 1.0)] == ["c"]


def test_what_cannot_be_run_is_refused_before_anything_is_made(tmp_path, capsys):
    with pytest.raises(PgcError, match="at least 2"):
        frontier(trials=1, out=tmp_path / "x")
    with pytest.raises(PgcError, match="unknown world"):
        frontier(world="moon", out=tmp_path / "x")
    with pytest.raises(PgcError, match="takes every setting"):
        frontier(resume=tmp_path, trials=5)
    assert not (tmp_path / "x").exists()
    assert main(["frontier", "--resume", str(tmp_path)]) == 2
    assert "not a folder that pgc frontier made" in capsys.readouterr().err


def test_a_slice_of_the_committed_frontier_comes_out_the_same(tmp_path):
    """First successes of the default at ε = 1, from the first reports of a new run: equal on a like machine, else alike."""
    committed = json.loads(COMMITTED.read_text())
    (row,) = [r for r in committed["cells"] if (r["way"], r["epsilon"]) == ("index", 1.0)]
    until, window = 150, 10
    theirs = np.array([np.inf if f is None else f for f in row["fst"]])
    theirs = np.where(theirs > until - window + 1, np.inf, theirs)
    settings = {
        "epsilon": 1.0,
        "trials": len(theirs),
        "submissions": until,
        "seed": committed["seed"],
        "eval_episodes": 1,
    }
    ours = sweep.run(
        [Cell(name="slice", config=configure(**settings), figure_trials=1)], Folder(tmp_path)
    )["slice"].fst
    assert np.isfinite(theirs).sum() > 10
    if all(committed["machine"][key] == machine()[key] for key in DECIDE_BITS):
        assert np.array_equal(ours, theirs)
    both = [np.minimum(f, until) for f in (ours, theirs)]
    assert stats.ks_2samp(*both).pvalue > 0.001
    assert (
        stats.ks_2samp(both[0], both[1] * 3).pvalue < 0.001
    )  # three times as long would be noticed
