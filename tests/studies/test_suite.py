"""`pgc frontier --suite`: several worlds over ε, each beside noise alone and a public start."""

import json
import math

import numpy as np
import pytest

from pgc.cli.main import main
from pgc.errors import PgcError
from pgc.runs.sweep import Cell, Outcome
from pgc.studies.suite import plan, table
from pgc.studies.suite.suite import suite


def settings(**changed):
    return plan.Settings(
        **{"worlds": ("cartpole", "pendulum"), "trials": 2, "seed": 0, "quick": True, **changed}
    )


def test_every_world_has_each_epsilon_its_control_and_a_public_start():
    cells = {cell.name: cell for cell in plan.cells(settings())}
    assert len(cells) == 2 * (2 * 2 + 1)
    for name, cell in cells.items():
        config = cell.problem.config
        assert config.control == name.endswith("-control")
        assert config.public == name.endswith("/public")
        if config.public:  # trained in the usual home, and scored where the others are
            assert len(cell.problem.training.population.grid()) == 1
            assert (
                cell.judged
                == cells["CartPole/1" if "Cart" in name else "Pendulum/1"].problem.config.population
            )
    with pytest.raises(PgcError, match="has no mars; choose from: cartpole"):
        plan.cells(settings(worlds=("cartpole", "mars")))


def outcome(*scores):
    some = np.array(scores, float)
    return Outcome(fst=np.full(2, np.inf), curve=np.zeros((2, 1)), n=np.ones(1), final=some, averaged=some, steps=some, received=some)  # fmt: skip


def test_the_table_puts_each_score_beside_its_control():
    one = settings(worlds=("cartpole",))
    cells = {cell.name: cell for cell in plan.cells(one)}
    outcomes = {name: outcome(10.0, 20.0) for name in cells}
    outcomes |= {"CartPole/1": outcome(200.0, 190.0), "CartPole/public": outcome(100.0, 120.0)}
    [world] = table.worlds(one, cells, outcomes)
    private, free = world["rows"]
    assert (private["score"], private["control"]["score"], private["good"]) == (195.0, 15.0, 0.5)
    assert private["epsilon"] == 1.0 and math.isinf(free["epsilon"]) and free["good"] == 0.0
    assert world["public_start"]["score"] == 110.0 and world["threshold"] == 195.0


@pytest.mark.more
def test_a_public_start_is_scored_in_all_homes(tmp_path):
    """Two cells that differ in where they are scored alone have different scores."""
    from pgc.config import configure
    from pgc.runs import sweep
    from pgc.runs.folder import Folder

    config = configure(
        submissions=10, trials=1, eval_episodes=20, local_episodes=1, population="gravity=9.8"
    )
    hard = ("gravity=9.8", "length=0.05", "force=1")
    cells = [Cell(name="here", config=config), Cell(name="there", config=config, judged=hard)]
    Folder(tmp_path).make(tmp_path / "sweep")
    found = sweep.run(cells, Folder(tmp_path / "sweep"))
    assert found["here"].fst == found["there"].fst
    assert found["here"].final[0] != found["there"].final[0]


@pytest.mark.more
def test_the_report(tmp_path, capsys):
    pytest.importorskip("jinja2")
    out = tmp_path / "suite"
    small = ["frontier", "--suite", "--quick", "--worlds", "cartpole", "--out", str(out)]
    assert main(small) == 0
    said = capsys.readouterr().out
    assert "CartPole: ε = 1:" in said and "public start" in said
    page = (out / "report.html").read_text()
    assert "QUICK LOOK" in page and "<td>CartPole</td>" in page
    assert (out / "figures" / "worlds.png").exists() and (out / "figures" / "worlds.svg").exists()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["worlds"][0]["title"] == "CartPole" and summary["command"].startswith(
        "pgc frontier --suite"
    )
    assert main(["frontier", "--resume", str(out)]) == 0  # its report is written again
    with pytest.raises(PgcError, match="from the folder itself"):
        suite(resume=out, seed=3)


def test_flags_that_do_not_belong_together(capsys):
    assert main(["frontier", "--worlds", "cartpole"]) == 2
    assert "--worlds belongs to --suite" in capsys.readouterr().err
    assert main(["frontier", "--suite", "--submissions", "10"]) == 2
    assert "chooses --submissions itself" in capsys.readouterr().err
