"""A run on disk while it is made, written so that it can be continued after a kill.

Beside the files that `run.py` lists, its folder then holds checkpoint.safetensors: the whole state.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pgc.config import TrainConfig, to_yaml
from pgc.engines.simulation import Arrivals
from pgc.errors import PgcError
from pgc.runs.folder import Folder
from pgc.runs.run import Run

CHECKPOINT = "checkpoint.safetensors"

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


class RunInProgress(Run):
    """A run folder that a process works on."""

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> Self:
        """Makes a run folder, at a path where there is none or an empty one."""
        Folder.make(path, "metrics")
        Folder(path).write("config.yaml", to_yaml(config).encode())
        return cls(path, config, run_code=True)

    def write_part(self, index: int, happened: Iterable[Arrivals]) -> None:
        """Writes the submissions since the last part."""
        tables = [pa.table(h._asdict(), schema=SCHEMA) for h in happened]
        buffer = io.BytesIO()
        pq.write_table(pa.concat_tables([SCHEMA.empty_table(), *tables]), buffer)
        self.folder.write(f"metrics/part-{index:05d}.parquet", buffer.getvalue())

    def drop_parts_from(self, index: int) -> None:
        """Deletes the parts that no checkpoint counts."""
        for part in self._parts():
            if int(part.stem.removeprefix("part-")) >= index:
                part.unlink()

    def write_checkpoint(self, arrays: dict[str, np.ndarray], counts: dict[str, Any]) -> None:
        """Replaces the checkpoint in one atomic step."""
        metadata = {"config": fingerprint(self.config), "progress": json.dumps(counts)}
        self.folder.write_arrays(CHECKPOINT, arrays, metadata)

    def read_checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns the last checkpoint. Refuses one that is damaged or of another configuration."""
        arrays, metadata = self.folder.read_arrays(CHECKPOINT)
        if metadata.get("config") != fingerprint(self.config):
            raise PgcError(
                f"{self.path / CHECKPOINT} is of another configuration than the config.yaml beside "
                "it; restore config.yaml, or start a new run"
            )
        return arrays, json.loads(metadata["progress"])

    def drop_checkpoint(self) -> None:
        """Deletes the checkpoint, when the run is complete."""
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def abandon(self) -> None:
        """Empties the folder of a run that failed before it wrote anything, so that it can be used
        again; leaves one that holds more than its config. Only for the process that made the
        folder, and holds its lock.
        """
        metrics = self.path / "metrics"
        left = {found.name for found in self.path.iterdir()}
        if left == {"config.yaml", metrics.name} and not any(metrics.iterdir()):
            metrics.rmdir()
            (self.path / "config.yaml").unlink()

    def finished(self) -> Run:
        """Returns the run, to be read."""
        return Run(self.path, self.config, self.run_code)


def fingerprint(config: TrainConfig) -> str:
    """Returns a hash that tells configurations apart."""
    return hashlib.sha256(to_yaml(config, as_before=True).encode()).hexdigest()
