"""The config that decides a run, and the parts that are built from it.

A run is a function of (config, seed).
"""

from pgc.config.config import TrainConfig
from pgc.config.files import from_yaml, to_yaml
from pgc.config.presets import PRESETS, configure

__all__ = ["PRESETS", "TrainConfig", "configure", "from_yaml", "to_yaml"]
