"""What decides a run, and the parts that are built from it. A run is a function of (config, seed)."""

from pgc.config.config import PRESETS, TrainConfig, configure, from_yaml, to_yaml

__all__ = ["PRESETS", "TrainConfig", "configure", "from_yaml", "to_yaml"]
