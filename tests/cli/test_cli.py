"""The command line as a user meets it: what it leaves, what it prints, and what it says when it is used wrongly."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import pgc
from pgc.cli.main import COMMANDS, main
from pgc.config import PRESETS
from pgc.engines import compiled_simulation
from pgc.runs import figures
from pgc.runs.in_progress import RunInProgress
from pgc.runs.run import Run
from tests import signalled
from tests.waiting import LIMIT

SMALL = [
    "--local-episodes",
    "1",
    "--submissions",
    "120",
    "--trials",
    "2",
    "--eval-episodes",
    "3",
    "--workers",
    "3",
]
KEYS = {
    "mechanism", "epsilon", "epsilon_gradient", "epsilon_score", "submissions", "trials", "seed", "fst_median", "success_ratio",
    "auc", "final_score_mean", "final_success_ratio", "averaged_success_ratio", "env_steps", "seconds",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """One small finished run that several tests look at."""
    path = tmp_path_factory.mktemp("runs") / "prs"
    assert (
        main(
            ["train", *SMALL, "--score-epsilon", "0.25", "--buffer-size", "50", "--out", str(path)]
        )
        == 0
    )
    return path


@pytest.fixture(scope="module")
def free(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "free"
    assert main(["train", *SMALL, "--epsilon", "inf", "--out", str(path)]) == 0
    return path


def refused(capsys, *arguments) -> str:
    """Run a command that must fail as a user's mistake; return the one line it says."""
    assert main([str(a) for a in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    # a slow machine also says how far it came
    lines = [
        line for line in said.err.splitlines() if not re.search(r" of [\d,]+ submissions ", line)
    ]
    assert len(lines) == 1 and lines[0].startswith("pgc: "), said.err
    return lines[0]


def test_help_is_a_table_of_contents(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"pgc {verb}" in out for verb in COMMANDS)


@pytest.mark.parametrize("verb", list(COMMANDS))
def test_every_command_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help-all"])
    assert stop.value.code == 0
    assert "--json" in capsys.readouterr().out or verb == "serve"  # which has no result


def test_a_run_leaves_everything_the_readme_says(finished):
    left = {str(p.relative_to(finished)) for p in finished.rglob("*") if p.is_file()}
    left = {
        re.sub(r"part-\d{5}", "part-00000", name) for name in left
    }  # a slow machine writes one every twenty seconds
    assert left == {
        "config.yaml", "metrics/part-00000.parquet", "policy.safetensors", "curve.png", "privacy.json", "summary.json",
    }  # fmt: skip
    summary = json.loads((finished / "summary.json").read_text())
    assert set(summary) >= KEYS
    assert (summary["mechanism"], summary["epsilon"], summary["trials"], summary["received"]) == (
        "index",
        1.0,
        2,
        240,
    )
    assert summary["epsilon_gradient"] == 0.75 and summary["epsilon_score"] == 0.25
    assert summary["unused_reports"] == 2 * (120 % 50)
    privacy = json.loads((finished / "privacy.json").read_text())
    assert privacy["epsilon"] == 1.0 and privacy["honest"] and privacy["not_protected"]
    policies = Run.open(finished).policies()
    assert policies["theta"].shape == policies["averaged"].shape == (2, 112)


def test_there_is_one_row_of_metrics_for_each_submission(finished):
    table = pq.read_table(finished / "metrics").to_pydict()
    assert sorted(zip(table["trial"], table["n"], strict=True)) == [
        (k, n) for k in range(2) for n in range(1, 121)
    ]
    assert min(table["steps"]) >= min(table["score"]) >= 1
    assert sum(table["steps"]) == json.loads((finished / "summary.json").read_text())["env_steps"]
    run = Run.open(finished)
    scores = run.scores()
    assert scores.shape == (2, 120) and not np.isnan(scores).any()
    columns = run.metrics()
    assert all(np.array_equal(columns[name], table[name]) for name in table)
    assert np.array_equal(scores[columns["trial"], columns["n"] - 1], columns["score"])
    assert run.curve().shape == (2, 111)
    np.testing.assert_allclose(run.curve()[1, 110], scores[1, 110:].mean(), rtol=1e-6)


def test_a_run_can_be_read_and_is_a_path(finished):
    run = Run.open(str(finished))
    assert run.privacy["epsilon"] == 1.0 and Path(run) == finished
    assert np.array_equal(pgc.load(run).theta, run.policies()["averaged"][0])
    shown = {name for name in dir(run) if not name.startswith("_")}
    assert shown == {
        "complete", "config", "curve", "folder", "has_begun", "metrics", "open", "path", "policies", "privacy", "problem",
        "run_code", "scores", "summary",
    }  # fmt: skip


def test_json_prints_the_summary_alone_and_infinity_is_null(capsys, tmp_path):
    assert main(["train", *SMALL, "--epsilon", "inf", "--json", "--out", str(tmp_path / "r")]) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert said.err == "" and set(summary) >= KEYS
    assert (
        summary["epsilon"] is summary["epsilon_gradient"] is None and summary["mechanism"] == "none"
    )


def test_the_same_seed_gives_the_same_policy_through_the_python_interface(finished, tmp_path):
    config = Run.open(finished).config
    run = pgc.train(config, out=tmp_path / "again")
    for name in ("theta", "averaged"):
        assert np.array_equal(run.policies()[name], Run.open(finished).policies()[name])
    without_clock = [
        {k: v for k, v in r.summary.items() if k != "seconds"} for r in (run, Run.open(finished))
    ]
    assert without_clock[0] == without_clock[1]


def test_evaluate_scores_inside_and_outside_the_population(finished, capsys, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")  # evaluate leaves files there
    assert main(["evaluate", str(run), "--episodes", "3", "--gif"]) == 0
    out = capsys.readouterr().out
    assert "gravity=9.8" in out and "trained on" in out and out.strip().endswith(str(run))
    result = json.loads((run / "evaluation.json").read_text())
    assert len(result["trained_on"]) == 3 and len(result["scores"]) > 3
    assert (run / "evaluation.png").read_bytes()[:4] == b"\x89PNG" and (
        run / "episode.gif"
    ).read_bytes()[:3] == b"GIF"
    assert (
        main(
            [
                "evaluate",
                str(run),
                "--population",
                "length=0.3,0.9",
                "--policy",
                "theta",
                "--json",
                "--episodes",
                "2",
            ]
        )
        == 0
    )
    assert set(json.loads(capsys.readouterr().out)["scores"]) == {
        "gravity=9.8 length=0.3",
        "gravity=9.8 length=0.9",
    }


def test_compare_puts_runs_on_one_figure(finished, free, capsys, tmp_path):
    assert main(["compare", str(finished), str(free), "--out", str(tmp_path / "c"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [r["epsilon"] for r in rows] == [1.0, None]
    named = ["compare", str(finished), str(free), "--out", str(tmp_path / "c"), "--labels"]
    assert main([*named, "private", "open"]) == 0
    said = capsys.readouterr().out
    assert (
        "\nprivate " in said and "\nopen " in said and "differ in: --mechanism, --epsilon" in said
    )
    assert main([*named, "private"]) == 2 and "a label for each" in capsys.readouterr().err
    assert (tmp_path / "c" / "compare.png").read_bytes()[:4] == b"\x89PNG"


# 34 trials are two blocks; they end at different times and are packed into one.
LONG = [
    "--preset",
    "paper",
    "--submissions",
    "600",
    "--trials",
    "34",
    "--eval-episodes",
    "2",
    "--seed",
    "4",
]


def test_killed_or_interrupted_a_run_continues_to_the_bit_identical_result(tmp_path, monkeypatch):
    # the program that the others run
    monkeypatch.setattr(compiled_simulation, "MOST_TURNS", signalled.TURNS)
    whole = pgc.train(**settings_of(LONG), out=tmp_path / "whole")

    path, often = tmp_path / "run", ["--checkpoint-seconds", "0"]  # a checkpoint at every look
    killed = signalled.start(
        "SIGKILL", "checkpoint.safetensors", 3, "train", "--out", path, *LONG, *often
    )
    said = killed.communicate(timeout=LIMIT)
    assert killed.returncode == -signal.SIGKILL and not (path / "summary.json").exists(), said
    assert (
        len(list((path / "metrics").glob("part-*.parquet"))) == 3
    )  # the last of which no checkpoint counts

    stopped = signalled.start("SIGINT", "part-00004.parquet", 1, "train", "--resume", path, *often)
    _, said = stopped.communicate(timeout=LIMIT)
    assert stopped.returncode == 130 and f"--resume {path}" in said
    assert 0 < len(pq.read_table(path / "metrics")) < 34 * 600

    # A kill after rows were written and before the checkpoint that counts them: the rows must not be counted twice.
    parts = sorted((path / "metrics").iterdir())
    shutil.copy(parts[-1], path / "metrics" / f"part-{len(parts) + 50:05d}.parquet")
    run = pgc.train(resume=path)
    assert len(pq.read_table(path / "metrics")) == 34 * 600
    assert np.array_equal(run.policies()["theta"], whole.policies()["theta"])
    assert np.array_equal(run.policies()["averaged"], whole.policies()["averaged"])
    assert np.array_equal(run.scores(), whole.scores())
    assert {k: v for k, v in run.summary.items() if k != "seconds"} == {
        k: v for k, v in whole.summary.items() if k != "seconds"
    }
    assert not (path / "checkpoint.safetensors").exists()
    assert pgc.train(resume=path).summary == run.summary  # a finished run is left as it is


def test_a_run_that_was_killed_while_it_compiled_starts_over_on_resume(free, tmp_path):
    path = tmp_path / "early"
    (path / "metrics").mkdir(parents=True)
    shutil.copy(free / "config.yaml", path)
    run = pgc.train(resume=path)
    assert np.array_equal(run.policies()["theta"], Run.open(free).policies()["theta"])


def test_two_processes_cannot_work_on_one_run(free, tmp_path, capsys):
    path = tmp_path / "busy"
    shutil.copytree(free, path)
    (path / "summary.json").unlink()
    with Run.open(path).folder.locked():
        assert "another process" in refused(capsys, "train", "--resume", path)


@pytest.mark.more
def test_no_output_states_an_epsilon_that_does_not_hold(capsys, tmp_path):
    path = tmp_path / "r"
    assert (
        main(
            [
                "train",
                *SMALL,
                "--mechanism",
                "laplace-coordinatewise",
                "--subspace",
                "full",
                "--out",
                str(path),
            ]
        )
        == 0
    )
    said = capsys.readouterr()
    assert "ε = 112 (not 1)" in said.err and "112" in said.out
    privacy = json.loads((path / "privacy.json").read_text())
    assert privacy["epsilon"] == 112 and not privacy["honest"]
    assert figures.label_of(Run.open(path)).startswith("laplace-coordinatewise, ε = 112 (not 1)")


def test_compare_says_where_noise_alone_does_as_well(finished, capsys, tmp_path):
    control = tmp_path / "control"
    shutil.copytree(finished, control)
    config = (control / "config.yaml").read_text()
    (control / "config.yaml").write_text(config.replace("control: false", "control: true"))
    said = json.loads((finished / "summary.json").read_text())
    for score, warned in (
        (said["averaged_score_mean"] + 1, True),
        (said["averaged_score_mean"] - 1, False),
    ):
        made = {**said, "control": True, "averaged_score_mean": score}
        (control / "summary.json").write_text(json.dumps(made))
        assert main(["compare", str(finished), str(control), "--out", str(tmp_path / "c")]) == 0
        assert ("no better than that of a control" in capsys.readouterr().out) == warned
    other = config.replace("control: false", "control: true").replace(
        "epsilon: 1.0", "epsilon: 9.0"
    )
    (control / "config.yaml").write_text(other)  # not a control of this run
    made = {**said, "control": True, "averaged_score_mean": 1e9}
    (control / "summary.json").write_text(json.dumps(made))
    assert main(["compare", str(finished), str(control), "--out", str(tmp_path / "c")]) == 0
    assert "no better" not in capsys.readouterr().out


def test_figures_for_a_paper_are_vectors(finished, tmp_path):
    assert main(["compare", str(finished), "--style", "paper", "--out", str(tmp_path / "c")]) == 0
    assert main(["evaluate", str(finished), "--style", "paper", "--episodes", "2"]) == 0
    for made in (tmp_path / "c" / "compare.pdf", finished / "evaluation.pdf"):
        page = made.read_bytes()
        assert page.startswith(b"%PDF") and b"/FontFile2" in page  # letters stay letters
        (width,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+)", page)
        assert float(width) == pytest.approx(72 * figures.COLUMN, abs=1)
        made.unlink()
    (finished / "evaluation.json").unlink()


def test_compare_does_not_overwrite_a_run(finished, capsys):
    before = (finished / "summary.json").read_bytes()
    assert "choose another --out" in refused(capsys, "compare", finished, "--out", finished)
    assert (finished / "summary.json").read_bytes() == before


def settings_of(flags):
    settings = asdict(PRESETS[flags[1]])
    for name, value in zip(flags[2::2], flags[3::2], strict=True):
        settings[name[2:].replace("-", "_")] = int(value)
    return settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "0"], "epsilon must be greater than 0"),
        (["--epsilon", "nan"], "epsilon is not a number"),
        (["--clip", "0"], "clip must be between"),
        (["--mechanism", "prs", "--reduced-dim", "113"], "between 1 and d = 4"),
        (["--estimator", "evolution", "--local-episodes", "1"], "at least 2 of them"),
        (["--lift", "--mechanism", "laplace"], "works with index, privunit, privunitg and duchi"),
        (["--code-size", "100000"], "two bytes"),
        (["--mechanism", "no.such:Thing"], "MODULE:NAME"),
        (["--subspace", "random", "--subspace-dim", "500"], "at most d = 112"),
        (["--buffer-size", "0"], "buffer_size must be at least 1"),
        (["--mechanism", "gauss"], "choose one of: none, laplace, prs"),
        (["--world", "chess"], "choose one of: cartpole"),
        (["--population", "mass=2"], "FIELD one of gravity"),
        (["--preset", "nature"], "unknown preset"),
        (["--epsilon", "abc"], "--help-all lists the flags"),
        (["--epsilom", "1"], "--epsilom"),
        (["--trials", "1.5"], "--trials"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)  # fmt: skip
def test_a_bad_setting_is_one_line_and_nothing_is_written(arguments, words, capsys, tmp_path):
    assert words in refused(capsys, "train", *arguments, "--out", tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_no_folder_is_overwritten(finished, capsys, tmp_path):
    before = (finished / "summary.json").read_bytes()
    assert "choose another --out" in refused(capsys, "train", *SMALL, "--out", finished)
    assert (finished / "summary.json").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    assert "not empty" in refused(capsys, "train", *SMALL, "--out", tmp_path / "mine")
    (tmp_path / "file").write_text("")
    assert "choose another --out" in refused(capsys, "train", *SMALL, "--out", tmp_path / "file")
    assert "choose another --out" in refused(
        capsys, "train", *SMALL, "--out", tmp_path / "file" / "below"
    )


def test_resuming_the_wrong_thing_says_what_is_wrong(capsys, tmp_path, free):
    assert "not a run folder" in refused(capsys, "train", "--resume", tmp_path)
    assert "drop --epsilon" in refused(capsys, "train", "--resume", free, "--epsilon", "2")

    broken = tmp_path / "broken"
    shutil.copytree(free, broken)
    (broken / "summary.json").unlink()
    assert "does not exist" in refused(
        capsys, "train", "--resume", broken
    )  # it has rows, but not the state that made them

    run = RunInProgress.open(broken)
    run.write_checkpoint({"x": np.zeros(3)}, {"parts": 0})
    good = (broken / "checkpoint.safetensors").read_bytes()
    assert "another configuration" in refused(capsys, "train", "--resume", broken)
    (broken / "checkpoint.safetensors").write_bytes(good[: len(good) - 5])
    assert "damaged or truncated" in refused(capsys, "train", "--resume", broken)
    (broken / "checkpoint.safetensors").write_bytes(good)
    config = (broken / "config.yaml").read_text()
    (broken / "config.yaml").write_text(config.replace("seed: 0", "seed: 1"))
    assert "another configuration" in refused(capsys, "train", "--resume", broken)
    assert (broken / "checkpoint.safetensors").read_bytes() == good


def test_evaluate_and_compare_refuse_what_is_no_run(capsys, tmp_path, finished):
    assert "not a run folder" in refused(capsys, "evaluate", tmp_path / "nowhere")
    assert "not a run folder" in refused(capsys, "compare", tmp_path, "--out", tmp_path / "c")
    assert "theta" in refused(capsys, "evaluate", finished, "--policy", "best")
    assert "unknown command" in refused(capsys, "learn")


def test_a_missing_extra_is_named():
    """Without JAX the package imports, and training says the one line that installs what it needs."""
    script = "import sys; sys.modules['jax'] = None; import pgc.mechanisms; from pgc.cli.main import main; "
    script += "sys.exit(main(['train']))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (
        done.returncode == 2
        and "pip install 'pgc[train]'" in done.stderr
        and done.stderr.count("\n") == 1
    )
