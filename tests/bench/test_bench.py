import json

import pytest

from pgc.bench import scaling
from pgc.bench.throughput import bench
from pgc.cli.main import main
from pgc.errors import PgcError

FIELDS = {"steps_per_s", "submissions_per_s", "ratio_torch", "ratio_numpy", "compile_s"}


def test_bench_measures_the_engine_against_the_numpy_loop(capsys):
    """How fast they are is for the reader of the numbers; here they are there and fit together."""
    assert main(["bench", "--trials", "32", "--seconds", "0.2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= FIELDS
    assert result["ratio_numpy"] == pytest.approx(
        result["steps_per_s"] / result["numpy_steps_per_s"]
    )
    assert result["ratio_numpy"] > 0 and result["mean_episode"] >= 1


def test_bench_says_what_it_knows(capsys):
    assert main(["bench", "--mechanism", "none"]) == 2
    assert "laplace and prs" in capsys.readouterr().err


@pytest.mark.extra
def test_bench_with_pytorch():
    result = bench("prs", trials=32, seconds=0.2, seed=0, baselines=True)
    assert result["ratio_torch"] == pytest.approx(
        result["steps_per_s"] / result["torch_steps_per_s"]
    )


@pytest.mark.more
def test_how_cost_grows_is_measured(monkeypatch, capsys):
    """Every part that needs no extra, in small."""
    for name, few in (
        ("TRIALS", (32,)),
        ("AGENTS", (9,)),
        ("DIMENSIONS", (100, 70_000)),
        ("WORKERS", (1,)),
        ("MOST_OF_LAPLACE", 100),
    ):
        monkeypatch.setattr(scaling, name, few)
    monkeypatch.setattr(scaling.importlib.util, "find_spec", lambda name: None)  # no extra
    made = scaling.scale(0.2, 0, None, ("trials", "agents", "dimensions", "update", "slow"))
    assert made["trials"][0]["steps_per_s"] > 0 and made["agents"][0]["workers"] == 9
    reports = {(row["mechanism"], row["d"]): row for row in made["dimensions"]}
    assert (
        reports["index", 70_000]["bytes"] == reports["duchi", 100]["bytes"] == 14
        and reports["laplace", 100]["bytes"] == 413
    )
    assert ("laplace", 70_000) not in reports
    assert made["slow"]["processes"]
    said = scaling.lines(made)
    assert any(line.startswith("dimensions") and "mechanism index" in line for line in said)
    with pytest.raises(PgcError, match="seconds must be greater than 0"):
        scaling.scale(0, 0)
