"""θ_0 from somewhere else: a run, a file, a network of PyTorch or Stable-Baselines3.

A config holds the numbers themselves (`base64:…`), not the path that they came from: so a run is
still a function of its config and seed, on any machine and whatever becomes of the file. What is
known of where they came from goes into privacy.json, because a start that was trained on people's
data is not free.
"""

from __future__ import annotations

import base64
import io
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from pgc.config.config import TrainConfig
from pgc.config.files import from_yaml
from pgc.errors import PgcError, in_one_line, require
from pgc.local_training.worlds.registry import world_of
from pgc.spaces import Actions, Gaussian

INLINE = "base64:"
NETWORK = ("policy", "hidden", "activation", "biases", "normalize", "bounds", "scales")
"""The settings that are taken over from a run when it is the start: its θ means nothing without
them."""
UNKNOWN = "unknown: if it was trained on people's data, what they are promised is not in this file"


class Start(NamedTuple):
    """A θ_0, the network that it belongs to, where it came from, and the directions that were
    learnt with it.
    """

    theta: np.ndarray
    settings: dict[str, Any]
    """The settings of the network that it belongs to, as far as they are known."""
    origin: str
    directions: np.ndarray | None = None
    """The k directions (k, d) of a learnt subspace, if the start has them."""


def with_start(config: TrainConfig) -> TrainConfig:
    """Returns the config with θ_0 itself in place of the path in `start`, and with the settings of
    its network.
    """
    if config.start is None or config.start.startswith(INLINE):
        return config
    found = read_start(Path(config.start), lambda: world_of(config).actions)
    given = {name: value for name, value in found.settings.items() if value is not None}
    named = str(given.get("policy", ""))
    if ":" in named and named != config.policy:  # a file must not decide which code is run
        raise PgcError(
            f"the start {config.start} is of a policy of its own: give --policy {named} if you "
            "trust that code"
        )
    named_start = config.start
    config = replace(config, **given, start=inline(found.theta), start_origin=found.origin)
    if config.subspace != "learnt":
        return config
    if found.directions is None and config.learnt_directions is not None:
        return config
    if found.directions is None:
        raise PgcError(
            "the start has no learnt directions: make one with pgc pretrain --vary FIELD=low:high"
        )
    if found.directions.ndim != 2 or found.directions.shape[1] != len(found.theta):
        raise PgcError(
            f"the directions in {named_start} do not belong to its policy of d = {len(found.theta)}"
        )
    return replace(config, learnt_directions=inline(found.directions))


def theta_of(config: TrainConfig, dim: int) -> tuple[float, ...] | None:
    """Returns the θ_0 that a config holds, for a network with d = `dim`; None if it is drawn."""
    if config.start is None:
        return None
    theta = _numbers(config.start, "start")
    if len(theta) != dim or not np.isfinite(theta).all():
        raise PgcError(
            f"the start has {len(theta)} numbers, and the network d = {dim}: it must come from a "
            f"world with the observations and actions of {config.world}; if it does, give the "
            "--hidden, --activation and --biases that it was trained with"
        )
    return tuple(map(float, theta))


def directions_of(config: TrainConfig, dim: int) -> tuple[tuple[float, ...], ...]:
    """Returns the directions of a learnt subspace, for a network with d = `dim`."""
    if config.learnt_directions is None:
        raise PgcError("--subspace learnt needs the folder of a pgc pretrain: give --start FOLDER")
    rows = _numbers(config.learnt_directions, "learnt directions")
    if not len(rows) or len(rows) % dim or not np.isfinite(rows).all():
        raise PgcError(f"the directions in this config do not belong to a network with d = {dim}")
    return tuple(tuple(map(float, row)) for row in rows.reshape(-1, dim))


def _numbers(text: str, what: str) -> np.ndarray:
    try:
        raw = base64.b64decode(text.removeprefix(INLINE), validate=True)
        return np.frombuffer(raw, "<f4")
    except ValueError:
        raise PgcError(f"the {what} in this config cannot be read") from None


def inline(theta: np.ndarray) -> str:
    """Returns the form in which a config holds θ_0, or directions one after the other."""
    return INLINE + base64.b64encode(np.asarray(theta, "<f4").tobytes()).decode()


def read_start(path: Path, actions: Callable[[], Actions]) -> Start:
    """Returns the start that a path names.

    It is a run folder, a file of safetensors or numpy.save, or one of PyTorch (.pt, .pth) or
    Stable-Baselines3 (.zip).
    """
    if not path.exists():
        raise PgcError(
            f"there is no start at {path}; name the folder of a run, or a file with a policy"
        )
    try:
        if path.is_dir():
            return _of_run(path)
        if path.suffix in (".pt", ".pth", ".zip"):
            return _of_torch(path, actions())
        data = path.read_bytes()
        if path.suffix == ".npy":
            return Start(np.load(io.BytesIO(data)).astype(np.float32).ravel(), {}, UNKNOWN)
        arrays = load(data)
        return Start(_theta_in(arrays).astype(np.float32), {}, UNKNOWN, arrays.get("directions"))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise PgcError(f"{path} cannot be read as a start ({in_one_line(error)})") from None


def _of_run(path: Path) -> Start:
    config = from_yaml((path / "config.yaml").read_text(encoding="utf-8"))
    arrays = load((path / "policy.safetensors").read_bytes())
    statement = json.loads((path / "privacy.json").read_text(encoding="utf-8"))
    settings = {name: getattr(config, name) for name in NETWORK}
    theta, directions = _theta_in(arrays), arrays.get("directions")
    if directions is None and config.learnt_directions is not None:  # it learnt in them itself
        directions = np.array(directions_of(config, len(theta)), np.float32)
    return Start(theta, settings, _origin(statement), directions)


def _origin(statement: dict[str, Any]) -> str:
    """Says in words how private a run's θ is, by its own privacy.json."""
    epsilon = statement.get("epsilon")
    before = statement.get("start") or ""
    behind = f"; that began with a start of its own ({before})" if before else ""
    if statement.get("public"):
        made = "trained in a simulator, on nobody's data"
        return f"public: {made}" if before in ("", f"public: {made}") else f"{made}{behind}"
    if isinstance(epsilon, int | float) and math.isfinite(epsilon):
        return (
            f"private: each agent of the run that it came from spent ε = {epsilon:g} on it; who "
            f"takes part in both runs spends both{behind}"
        )
    return (
        "NOT private: trained without ε, on what may be people's data. If those were simulated, "
        f"say --public when you train{behind}"
    )


def _theta_in(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the averaged policy of the first trial, or the only vector that there is."""
    if "averaged" in arrays or "theta" in arrays:
        found = arrays.get("averaged", arrays.get("theta"))
        assert found is not None
        return found[0] if found.ndim == 2 else found
    arrays = {name: array for name, array in arrays.items() if name != "directions"}
    if len(arrays) != 1:
        raise ValueError(f"it holds {', '.join(sorted(arrays))}; one vector θ was expected")
    return next(iter(arrays.values())).ravel()


def _of_torch(path: Path, actions: Actions) -> Start:
    torch = require("torch", "torch")
    data: Any = path
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as file:
            data = io.BytesIO(file.read("policy.pth"))
    weights = torch.load(data, map_location="cpu", weights_only=True)
    if not isinstance(weights, dict):
        raise ValueError("it holds no state_dict; save module.state_dict()")
    arrays = {name: value.numpy() for name, value in weights.items() if hasattr(value, "numpy")}
    of_sb3 = "action_net.weight" in arrays
    layers = _layers(arrays, of_sb3)
    head, bias = layers[-1]
    if isinstance(actions, Gaussian):  # ours are in units of half the range, around its middle
        low, high = np.array(actions.low), np.array(actions.high)
        head, bias = (
            head / (((high - low) / 2)[:, None]),
            (bias - (high + low) / 2) * 2 / (high - low),
        )
    if len(head) != actions.outputs:
        raise ValueError(
            f"its last layer has {len(head)} outputs; the world needs {actions.outputs}"
        )
    value = [np.zeros(head.shape[1]), np.zeros(1)]  # a critic is not carried over
    pieces = [x for layer in layers[:-1] for x in layer] + [head, bias, *value]
    settings: dict[str, Any] = {
        "hidden": tuple(len(bias) for _, bias in layers[:-1]),
        "biases": True,
        "normalize": False,
        "activation": "tanh" if of_sb3 else None,  # a state_dict does not say
    }
    return Start(np.concatenate([x.ravel() for x in pieces]).astype(np.float32), settings, UNKNOWN)


def _layers(arrays: dict[str, np.ndarray], of_sb3: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns weights and biases of a policy's layers, in order: of Stable-Baselines3's MlpPolicy,
    or of a torch.nn.Sequential of linear layers.
    """
    prefix = "mlp_extractor.policy_net."
    names = [
        name.removesuffix(".weight")
        for name in arrays
        if name.endswith(".weight") and (name.startswith(prefix) if of_sb3 else True)
    ] + (["action_net"] if of_sb3 else [])
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for name in names:
        weight = arrays[f"{name}.weight"].astype(float)
        if weight.ndim != 2 or (found and weight.shape[1] != len(found[-1][1])):
            raise ValueError("its layers are not linear ones, each after the last")
        found.append((weight, arrays.get(f"{name}.bias", np.zeros(len(weight))).astype(float)))
    if not found:
        raise ValueError("it has no linear layers")
    return found
