"""Callbacks of `pgc.train`: functions of one's own that see how a run goes, and three loggers.

    pgc.train(epsilon=1.0, callbacks=[TensorBoard("logs")])

A callback sees what an experimenter sees: scores of simulated agents, which a deployed agent does
not send.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pgc.errors import require
from pgc.runs.run import Run


class SoFar(NamedTuple):
    """How far a run has come."""

    received: int
    """Submissions so far, of all trials together."""
    submissions: int
    """Submissions that there will be, of all trials together."""
    score: float
    """μ, the mean of the latest ten scores of every trial; NaN before the first of them."""
    succeeded: float
    """The share of trials that have succeeded: ten scores in a row averaged Θ."""


class Callback:
    """Does nothing. Override what you need."""

    def begin(self, run: Run) -> None:
        """Called when the run's folder has been made, before any agent plays."""

    def arrived(self, so_far: SoFar) -> None:
        """Called whenever some reports have arrived."""

    def end(self, run: Run) -> None:
        """Called when the run is complete and has its summary."""


class TensorBoard(Callback):
    """Writes the curve and the final numbers for TensorBoard (pgc[tensorboard])."""

    def __init__(self, folder: str | Path) -> None:
        self._writer = require("tensorboard.summary", "tensorboard").Writer(str(folder))

    def arrived(self, so_far: SoFar) -> None:
        """Writes one point of the curve."""
        for name, value in curve_points(so_far).items():
            self._writer.add_scalar(name, value, so_far.received)

    def end(self, run: Run) -> None:
        """Writes the final numbers, at the last step."""
        summary = run.summary
        for name, value in final_numbers(summary).items():
            self._writer.add_scalar(f"final/{name}", value, summary["received"])
        self._writer.close()


class MLflow(Callback):
    """Logs settings, curve, final numbers and files to MLflow (pgc[mlflow]).

    Where to is MLflow's own business: `mlflow.set_tracking_uri`, or MLFLOW_TRACKING_URI.
    """

    def __init__(self, experiment: str = "pgc") -> None:
        self._mlflow = require("mlflow", "mlflow")
        self._experiment = experiment

    def begin(self, run: Run) -> None:
        """Begins a run of MLflow, and logs the settings."""
        self._mlflow.set_experiment(self._experiment)
        self._mlflow.start_run(run_name=run.path.name)
        self._mlflow.log_params(settings(run))

    def arrived(self, so_far: SoFar) -> None:
        """Logs one point of the curve."""
        self._mlflow.log_metrics(curve_points(so_far), step=so_far.received)

    def end(self, run: Run) -> None:
        """Logs the final numbers and the run's files, and ends the run of MLflow."""
        self._mlflow.log_metrics(final_numbers(run.summary))
        for name in ("config.yaml", "privacy.json", "summary.json", "policy.safetensors"):
            self._mlflow.log_artifact(str(run.path / name))
        self._mlflow.end_run()


class WandB(Callback):
    """Logs settings, curve and final numbers to Weights & Biases (pgc[wandb]).

    It writes to this machine alone, and nothing is uploaded, unless `mode` is "online".
    """

    def __init__(
        self, project: str = "pgc", *, mode: str = "offline", folder: str | Path | None = None
    ) -> None:
        self._wandb = require("wandb", "wandb")
        self._project, self._mode, self._folder = project, mode, folder
        self._logged: Any = None

    def begin(self, run: Run) -> None:
        """Begins a run of Weights & Biases, with the settings."""
        self._logged = self._wandb.init(
            project=self._project,
            mode=self._mode,
            name=run.path.name,
            config=settings(run),
            dir=None if self._folder is None else str(self._folder),
        )

    def arrived(self, so_far: SoFar) -> None:
        """Logs one point of the curve."""
        self._logged.log(curve_points(so_far), step=so_far.received)

    def end(self, run: Run) -> None:
        """Adds the final numbers to the summary, and ends the run."""
        self._logged.summary.update(final_numbers(run.summary))
        self._logged.finish()


def settings(run: Run) -> dict[str, Any]:
    """Returns the settings of a run, without the numbers of a start."""
    left_out = ("start", "learnt_directions")
    return {name: value for name, value in asdict(run.config).items() if name not in left_out}


def curve_points(so_far: SoFar) -> dict[str, float]:
    """Returns the numbers of one point of the curve, by their names in a logger."""
    points = {"score": so_far.score, "succeeded": so_far.succeeded}
    return {name: value for name, value in points.items() if math.isfinite(value)}


def final_numbers(summary: dict[str, Any]) -> dict[str, float]:
    """Returns the finite numbers of a run's summary."""
    return {
        name: float(value)
        for name, value in summary.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
