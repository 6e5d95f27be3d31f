"""A run on disk, written so that it can be continued after a kill. Its folder holds:

config.yaml           everything that decided the run
checkpoint.safetensors  the whole state; gone once the run is complete
metrics/part-*.parquet  one row per submission
policy.safetensors    theta and averaged, one row per trial
curve.png  privacy.json  summary.json
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pgc.config import TrainConfig, from_yaml, to_yaml
from pgc.config.files import refuse_code
from pgc.config.problem import Problem, build
from pgc.engines.simulation import Arrivals
from pgc.errors import PgcError
from pgc.runs.folder import Folder

SCHEMA = pa.schema(
    [
        ("trial", pa.int32()),
        ("n", pa.int32()),
        ("score", pa.float32()),
        ("steps", pa.int32()),
        ("staleness", pa.int32()),
        ("tick", pa.int32()),
        ("bit", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Run(Folder):
    """A run folder. A finished one has a `summary`."""

    config: TrainConfig
    run_code: bool = False
    """Whether code that the config names (MODULE:NAME) may be run. It is True for a run that was
    created here, and for a folder that was opened with `run_code`."""

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> Run:
        """Makes a run folder, at a path where there is none or an empty one."""
        cls.make(path, "metrics")
        Folder(path).write("config.yaml", to_yaml(config).encode())
        return cls(path, config, run_code=True)

    @classmethod
    def open(cls, path: str | Path, *, run_code: bool = False) -> Run:
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
        return (
            state.exists() or made.exists() or len(list((self.path / "metrics").glob("part-*"))) > 1
        )

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers of a complete run; infinite values are None."""
        loaded = super().summary
        if "fst" not in loaded:
            raise PgcError(
                f"{self.path / 'summary.json'} is not that of a run; was it made by pgc train?"
            )
        return loaded

    def policies(self) -> dict[str, np.ndarray]:
        """Returns `theta` and `averaged`, each (trials, d)."""
        if self.has_begun and not self.complete:
            raise PgcError(
                f"{self.path} is not finished; continue it with: pgc train --resume {self.path}"
            )
        arrays, _ = self.read_arrays("policy.safetensors")
        if not {"theta", "averaged"} <= set(arrays):
            raise PgcError(
                f"{self.path / 'policy.safetensors'} does not hold theta and averaged; was it made "
                "by pgc train?"
            )
        return {name: arrays[name] for name in ("theta", "averaged")}

    def scores(self, most: int | None = None) -> np.ndarray:
        """Returns ζ (trials, submissions) of the first `most` trials; NaN after a trial's end."""
        trials = self.config.trials if most is None else min(most, self.config.trials)
        out = np.full((trials, self.config.submissions), np.nan, np.float32)
        for part in sorted((self.path / "metrics").glob("part-*.parquet")):
            table = pq.read_table(
                part, columns=["trial", "n", "score"], filters=[("trial", "<", trials)]
            )
            trial, n, score = (table.column(c).to_numpy() for c in ("trial", "n", "score"))
            out[trial, n - 1] = score
        return out

    def write_part(self, index: int, happened: Iterable[Arrivals]) -> None:
        """Writes the submissions since the last part."""
        tables = [pa.table(h._asdict(), schema=SCHEMA) for h in happened]
        buffer = io.BytesIO()
        pq.write_table(pa.concat_tables([SCHEMA.empty_table(), *tables]), buffer)
        self.write(f"metrics/part-{index:05d}.parquet", buffer.getvalue())

    def drop_parts_from(self, index: int) -> None:
        """Deletes the parts that no checkpoint counts."""
        for part in (self.path / "metrics").glob("part-*.parquet"):
            if int(part.stem.removeprefix("part-")) >= index:
                part.unlink()

    def write_checkpoint(self, arrays: dict[str, np.ndarray], counts: dict[str, Any]) -> None:
        """Replaces the checkpoint in one atomic step."""
        metadata = {"config": fingerprint(self.config), "progress": json.dumps(counts)}
        self.write_arrays("checkpoint.safetensors", arrays, metadata)

    def read_checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns the last checkpoint. Refuses one that is damaged or of another configuration."""
        arrays, metadata = self.read_arrays("checkpoint.safetensors")
        if metadata.get("config") != fingerprint(self.config):
            path = self.path / "checkpoint.safetensors"
            raise PgcError(
                f"{path} is of another configuration than the config.yaml beside it; restore "
                "config.yaml, or start a new run"
            )
        return arrays, json.loads(metadata["progress"])


def fingerprint(config: TrainConfig) -> str:
    """Returns a hash that tells configurations apart."""
    return hashlib.sha256(to_yaml(config, as_before=True).encode()).hexdigest()


@lru_cache(4)
def _built(config: TrainConfig) -> Problem:
    """Returns the problem of a config; several steps at the end of a run ask for the same one."""
    return build(config)
