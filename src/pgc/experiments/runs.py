"""A run on disk: what is in the folder, how it is written so that a kill loses nothing, how it is read back.

config.yaml           everything that decided the run
checkpoint.safetensors  the whole state; gone once the run is complete
metrics/part-*.parquet  one row per submission
policy.safetensors    theta and averaged, one row per trial
curve.png  privacy.json  summary.json
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pgc.config import TrainConfig, from_yaml, to_yaml
from pgc.engines.simulation import Happened
from pgc.errors import PgcError

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
class Run:
    """A run folder. A finished one has a `summary`."""

    path: Path
    config: TrainConfig

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> Run:
        """A new folder, or an empty one. Never writes into anything else."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise PgcError(f"{path} exists and is not empty; choose another --out, or continue it with --resume {path}")
            (path / "metrics").mkdir(parents=True)
            (path / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
        except OSError as error:
            raise PgcError(f"cannot write to {path} ({error.strerror}); choose another --out") from None
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing run folder."""
        try:
            text = (path / "config.yaml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise PgcError(f"{path} is not a run folder of pgc (no config.yaml in it); name one that pgc train made") from None
        return cls(path, from_yaml(text))

    @property
    def complete(self) -> bool:
        """Whether the run has ended."""
        return (self.path / "summary.json").exists()

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to continue from: a run killed while it compiled has only its config."""
        return (self.path / "checkpoint.safetensors").exists() or any((self.path / "metrics").glob("part-*"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse a second process that would continue the same run."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PgcError(f"another process is at work on {self.path}; wait for it, or end it first") from None
            yield
        finally:
            os.close(handle)

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers of a complete run; infinite values are None."""
        try:
            loaded: dict[str, Any] = json.loads((self.path / "summary.json").read_text(encoding="utf-8"))
            if "fst" not in loaded:
                raise ValueError
        except (OSError, ValueError):
            raise PgcError(f"{self.path} has no summary yet; finish it with: pgc train --resume {self.path}") from None
        return loaded

    def policies(self) -> dict[str, np.ndarray]:
        """`theta` and `averaged`, each (trials, d)."""
        arrays, _ = _load(self.path / "policy.safetensors")
        if set(arrays) != {"theta", "averaged"}:
            raise PgcError(f"{self.path / 'policy.safetensors'} does not hold theta and averaged; was it made by pgc train?")
        return arrays

    def scores(self, most: int | None = None) -> np.ndarray:
        """ζ, (trials, submissions), of the first `most` trials; NaN after a trial stopped."""
        trials = self.config.trials if most is None else min(most, self.config.trials)
        out = np.full((trials, self.config.submissions), np.nan, np.float32)
        for part in sorted((self.path / "metrics").glob("part-*.parquet")):
            table = pq.read_table(part, columns=["trial", "n", "score"], filters=[("trial", "<", trials)])
            trial, n, score = (table.column(c).to_numpy() for c in ("trial", "n", "score"))
            out[trial, n - 1] = score
        return out

    def write_part(self, index: int, happened: Iterable[Happened]) -> None:
        """The submissions since the last part."""
        tables = [pa.table(h._asdict(), schema=SCHEMA) for h in happened]
        buffer = io.BytesIO()
        pq.write_table(pa.concat_tables([SCHEMA.empty_table(), *tables]), buffer)
        self.write(f"metrics/part-{index:05d}.parquet", buffer.getvalue())

    def drop_parts_from(self, index: int) -> None:
        """Forget what was written after the checkpoint."""
        for part in (self.path / "metrics").glob("part-*.parquet"):
            if int(part.stem.removeprefix("part-")) >= index:
                part.unlink()

    def write_checkpoint(self, arrays: dict[str, np.ndarray], progress: dict[str, Any]) -> None:
        """Replace the checkpoint in one step."""
        metadata = {"config": fingerprint(self.config), "progress": json.dumps(progress)}
        self.write("checkpoint.safetensors", save(arrays, metadata))

    def read_checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The last checkpoint. Refuses one that is truncated or of another configuration."""
        path = self.path / "checkpoint.safetensors"
        arrays, metadata = _load(path)
        if metadata.get("config") != fingerprint(self.config):
            raise PgcError(f"{path} is of another configuration than config.yaml beside it; restore config.yaml, or start anew")
        return arrays, json.loads(metadata["progress"])

    def write_json(self, name: str, values: dict[str, Any]) -> None:
        """JSON for programs; infinite or undefined numbers become null."""
        self.write(name, (json.dumps(finite(values), indent=2, ensure_ascii=False) + "\n").encode())

    def write(self, name: str, data: bytes) -> None:
        """A whole file or nothing."""
        temporary = self.path / (name + ".tmp")
        try:
            temporary.write_bytes(data)
            _settle(temporary, self.path / name)
        except OSError as error:
            raise PgcError(
                f"cannot write {self.path / name} ({error.strerror}); mend that, then continue with --resume"
            ) from None


def fingerprint(config: TrainConfig) -> str:
    """Tells configurations apart."""
    return hashlib.sha256(to_yaml(config).encode()).hexdigest()


def finite(value: Any) -> Any:
    """`value` with every infinite or undefined number replaced by None."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _settle(temporary: Path, path: Path) -> None:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def _load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    if not path.exists():
        raise PgcError(f"{path} does not exist; is this a run that pgc train made?")
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise PgcError(f"{path} is damaged or truncated ({error}); start a new run") from None
