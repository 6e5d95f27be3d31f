import json

import pytest

from pgc.bench.throughput import bench
from pgc.cli import main

FIELDS = {"steps_per_s", "submissions_per_s", "ratio_torch", "ratio_numpy", "compile_s"}


def test_bench_measures_the_engine_against_the_numpy_loop(capsys):
    assert main(["bench", "--trials", "32", "--seconds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= FIELDS
    assert result["ratio_numpy"] == pytest.approx(result["steps_per_s"] / result["numpy_steps_per_s"])
    assert result["ratio_numpy"] > 5  # one block on a busy machine; the README has the real numbers


def test_bench_says_what_it_knows(capsys):
    assert main(["bench", "--mechanism", "none"]) == 2
    assert "laplace and prs" in capsys.readouterr().err


@pytest.mark.extra
def test_bench_with_pytorch():
    result = bench("prs", trials=180, seconds=3.0, seed=0, baselines=True)
    assert result["ratio_torch"] > 50 and result["compile_s"] < 20
