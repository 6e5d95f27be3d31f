"""Callbacks of pgc.train, and the loggers, by reading back what they wrote."""

import json
import math

import pytest

import pgc
from pgc.engines import compiled_simulation
from pgc.runs.callbacks import Callback, MLflow, SoFar, TensorBoard, WandB, curve_points
from tests import signalled

SMALL = {"submissions": 40, "local_episodes": 2, "eval_episodes": 1}


def train(monkeypatch, out, *callbacks):
    monkeypatch.setattr(compiled_simulation, "MOST_TURNS", signalled.TURNS)  # more points
    return pgc.train(out=out, callbacks=callbacks, **SMALL)


def test_a_callback_sees_the_run_from_its_beginning_to_its_end(tmp_path, monkeypatch):
    seen = []

    class Mine(Callback):
        def begin(self, run):
            seen.append(("begin", run.complete))

        def arrived(self, so_far):
            seen.append(so_far)

        def end(self, run):
            seen.append(("end", run.summary["received"]))

    run = train(monkeypatch, tmp_path / "run", Mine(), Callback())
    first, *points, last = seen
    assert first == ("begin", False) and last == ("end", 40)
    assert [p.received for p in points] == sorted(p.received for p in points) and len(points) > 2
    assert points[-1].received == points[-1].submissions == 40
    assert points[-1].score == pytest.approx(run.scores()[0, -9:].mean(), abs=1e-3)
    assert points[-1].succeeded == (run.summary["fst_median"] is not None)


def test_what_is_not_known_yet_is_not_logged():
    assert curve_points(SoFar(0, 10, math.nan, 0.0)) == {"succeeded": 0.0}


@pytest.mark.extra
def test_tensorboard_has_the_curve(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(monkeypatch, tmp_path / "run", TensorBoard(tmp_path / "logs"))
    read = EventAccumulator(str(tmp_path / "logs"))
    read.Reload()
    tags = read.Tags()
    assert any(
        "score" in str(tag) for group in tags.values() if isinstance(group, list) for tag in group
    )
    points = read.Tensors("score") if "score" in tags["tensors"] else read.Scalars("score")
    assert points[-1].step == 40 and len(points) > 2
    assert run.complete


@pytest.mark.extra
def test_mlflow_has_settings_curve_and_files(tmp_path, monkeypatch):
    import mlflow

    mlflow.set_tracking_uri(
        f"sqlite:///{tmp_path}/mlflow.db"
        if hasattr(mlflow, "sqlalchemy")
        else f"file:{tmp_path}/mlruns"
    )
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    run = train(monkeypatch, tmp_path / "run", MLflow("tried"))
    (logged,) = mlflow.search_runs(experiment_names=["tried"], output_format="list")
    assert logged.data.params["epsilon"] == "1.0" and logged.info.run_name == "run"
    assert logged.data.metrics["averaged_score_mean"] == run.summary["averaged_score_mean"]
    history = mlflow.MlflowClient().get_metric_history(logged.info.run_id, "score")
    assert history[-1].step == 40 and len(history) > 2


@pytest.mark.extra
def test_wandb_writes_to_this_machine_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = train(monkeypatch, tmp_path / "run", WandB("tried", folder=tmp_path))
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    (log,) = folder.glob("*.wandb")
    assert b"averaged_score_mean" in log.read_bytes() and b"local_episodes" in log.read_bytes()
    assert json.loads((run.path / "summary.json").read_text())["received"] == 40
