"""A run on disk, as it is read. Its folder holds:

config.yaml           everything that decided the run
metrics/part-*.parquet  one row per submission
policy.safetensors    theta and averaged, one row per trial
summary.json          the run in numbers
privacy.json          what left an agent, at which ε, and what is not protected
curve.png

What writes it is in `in_progress.py`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq

from pgc.config import TrainConfig, from_yaml
from pgc.config.problem import Problem, build
from pgc.errors import PgcError, refuse_code
from pgc.runs.folder import Folder
from pgc.runs.metrics import average_scores


@dataclass(frozen=True)
class Run:
    """A run folder, to be read. A finished one has a `summary`."""

    path: Path
    config: TrainConfig
    run_code: bool = False
    """Whether code that the config names (MODULE:NAME) may be run. It is True for a run that was
    created here, and for a folder that was opened with `run_code`."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, run_code: bool = False) -> Self:
        """Opens a run folder that exists.

        Somebody may have sent it. Code that its config names (MODULE:NAME) is run only with
        `run_code`; what is in the folder can be read without.
        """
        path = Path(path)
        try:
            text = (path / "config.yaml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise PgcError(
                f"{path} is not a run folder of pgc (no config.yaml in it); name one that pgc "
                "train made"
            ) from None
        return cls(path, from_yaml(text), run_code)

    def __fspath__(self) -> str:
        """Returns the path of the folder, so that a run can be given where a path is wanted."""
        return str(self.path)

    @property
    def folder(self) -> Folder:
        """The folder, to write into."""
        return Folder(self.path)

    def problem(self) -> Problem:
        """Builds the run's problem; refuses to run code that nobody said to trust."""
        refuse_code(vars(self.config), self.path / "config.yaml", self.run_code)
        return _built(self.config)

    @property
    def complete(self) -> bool:
        """Whether the run has ended."""
        return (self.path / "summary.json").exists()

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to continue from.

        A run killed while it compiled has only its config. One killed while it wrote its first
        checkpoint also has one part, whose rows no checkpoint counts.
        """
        state, made = self.path / "checkpoint.safetensors", self.path / "policy.safetensors"
        return state.exists() or made.exists() or len(self._parts()) > 1

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers of a complete run; infinite values are None."""
        loaded = self.folder.summary
        if "fst" not in loaded:
            raise PgcError(
                f"{self.path / 'summary.json'} is not that of a run; was it made by pgc train?"
            )
        return loaded

    @property
    def privacy(self) -> dict[str, Any]:
        """What privacy.json says: what left an agent, at which ε, and what is not protected."""
        return self.folder.read_json("privacy.json")

    def policies(self) -> dict[str, np.ndarray]:
        """Returns `theta` and `averaged`, each (trials, d). `pgc.load` returns one that acts."""
        if self.has_begun and not self.complete:
            raise PgcError(
                f"{self.path} is not finished; continue it with: pgc train --resume {self.path}"
            )
        arrays, _ = self.folder.read_arrays("policy.safetensors")
        if not {"theta", "averaged"} <= set(arrays):
            raise PgcError(
                f"{self.path / 'policy.safetensors'} does not hold theta and averaged; was it made "
                "by pgc train?"
            )
        return {name: arrays[name] for name in ("theta", "averaged")}

    def metrics(self) -> dict[str, np.ndarray]:
        """Returns what is known of every submission, one array for each column.

        `pandas.DataFrame(run.metrics())` is a data frame.

        | column | meaning |
        |---|---|
        | trial | the number of its trial, from 0 |
        | n | its number among the submissions of its trial, from 1 |
        | score | ζ, the score of the policy that the agent was handed, in its own world |
        | steps | how many steps of its world the agent played |
        | staleness | how many versions had been made since the θ that it played |
        | tick | when it arrived, in virtual time: environment steps |
        | bit | the noisy boolean, "my score is at least Θ", if agents send it |

        Score, steps and tick are the experimenter's view: no agent sends them.
        """
        tables = [pq.read_table(part) for part in self._parts()]
        if not tables:
            raise PgcError(f"{self.path} has no metrics yet")
        return {
            name: np.concatenate([table.column(name).to_numpy() for table in tables])
            for name in tables[0].column_names
            if name != "bit" or self.config.score_epsilon > 0
        }

    def scores(self, most: int | None = None) -> np.ndarray:
        """Returns ζ (trials, submissions) of the first `most` trials; NaN after a trial's end."""
        trials = self.config.trials if most is None else min(most, self.config.trials)
        out = np.full((trials, self.config.submissions), np.nan, np.float32)
        for part in self._parts():
            table = pq.read_table(
                part, columns=["trial", "n", "score"], filters=[("trial", "<", trials)]
            )
            trial, n, score = (table.column(c).to_numpy() for c in ("trial", "n", "score"))
            out[trial, n - 1] = score
        return out

    def curve(self, most: int | None = None) -> np.ndarray:
        """Returns the learning curve: μ_n (trials, submissions − 9) of the first `most` trials.

        μ_n is the mean of the scores of submissions n to n + 9; NaN after a trial's end.
        """
        scores = self.scores(most)
        return np.stack([average_scores(trial) for trial in scores])

    def _parts(self) -> list[Path]:
        return sorted((self.path / "metrics").glob("part-*.parquet"))


@lru_cache(4)
def _built(config: TrainConfig) -> Problem:
    """Returns the problem of a config; several steps at the end of a run ask for the same one."""
    return build(config)
