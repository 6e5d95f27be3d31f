"""Takes a learnt policy elsewhere: to PyTorch, to ONNX, or to a folder as model hubs expect it.

The layers that are written take observations as the environment gives them: the scaling to the
public box is folded into the first one. Nothing is uploaded.
"""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pgc import __version__
from pgc.errors import PgcError, require
from pgc.local_training.learnt import LearntPolicy
from pgc.runs.folder import Folder
from pgc.runs.load import load
from pgc.runs.run import Run

Format = Literal["torch", "onnx", "hub"]
OPSET = 17
"""The version of ONNX's operators that is asked for: every one in use has it."""


def export(
    run: str | Path,
    *,
    to: Format = "hub",
    out: str | Path | None = None,
    trial: int = 0,
    which: Literal["averaged", "theta"] = "averaged",
    audited: str | None = None,
) -> Path:
    """Writes the policy of a finished run, and returns the file or folder that was made.

    `torch` makes a state_dict of a torch.nn.Sequential (`torch_module` returns the module itself);
    `onnx` a model that maps a batch of observations to actions and to the policy's outputs; `hub` a
    folder with the run's own files, the ONNX model if the package is there, and a README.md with
    its privacy card. `audited` is what the card says of an audit; `pgc export` makes one.
    """
    policy = load(run, trial=trial, which=which)
    place = Path(out) if out is not None else Path(run) / {"hub": "hub"}.get(to, f"policy.{to}")
    if to == "torch":
        torch = require("torch", "torch")
        torch.save(torch_module(policy).state_dict(), place)
    elif to == "onnx":
        place.write_bytes(onnx_model(policy))
    elif to == "hub":
        _hub(Run.open(run), policy, Folder(place), audited)
    else:
        raise PgcError(f"unknown format '{to}'; choose torch, onnx or hub")
    return place


def torch_module(policy: LearntPolicy) -> Any:
    """Returns the policy as a torch.nn.Sequential, from observations to the policy's outputs.

    The outputs are logits of discrete actions, or the means of continuous ones in units of half
    their range, around its middle.
    """
    torch = require("torch", "torch")
    active = torch.nn.ReLU if policy.recipe.activation == "relu" else torch.nn.Tanh
    modules: list[Any] = []
    for weight, bias in policy.layers:
        linear = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T.astype(np.float32)))
            linear.bias.copy_(torch.from_numpy(bias.astype(np.float32)))
        modules += [linear, active()]
    return torch.nn.Sequential(*modules[:-1])


def onnx_model(policy: LearntPolicy) -> bytes:
    """Returns the policy as an ONNX model.

    Its input is `observation` (batch, n); its outputs are `action`, in the environment's own units,
    and `outputs`, the policy's outputs.
    """
    onnx = require("onnx", "onnx")
    make, numbers = onnx.helper, onnx.numpy_helper.from_array
    kept, nodes, now = [], [], "observation"
    active = "Relu" if policy.recipe.activation == "relu" else "Tanh"
    for i, (weight, bias) in enumerate(policy.layers):
        last = i == len(policy.layers) - 1
        names, made = (f"weight{i}", f"bias{i}"), "outputs" if last else f"layer{i}"
        kept += [
            numbers(array.astype(np.float32), name)
            for array, name in zip((weight, bias), names, strict=True)
        ]
        nodes.append(make.make_node("Gemm", [now, *names], [made]))
        now = made
        if not last:
            nodes.append(make.make_node(active, [made], [f"active{i}"]))
            now = f"active{i}"
    float32, int64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    observed = policy.layers[0][0].shape[0]
    actions = policy.recipe.actions
    if isinstance(actions, int):
        nodes.append(make.make_node("ArgMax", ["outputs"], ["action"], axis=1, keepdims=0))
        action = make.make_tensor_value_info("action", int64, ["batch"])
    else:
        low, high = np.array(actions, np.float32).T
        for name, array in (("half", (high - low) / 2), ("middle", (high + low) / 2)):
            kept.append(numbers(array, name))
        kept += [numbers(low, "low"), numbers(high, "high")]
        nodes += [
            make.make_node("Mul", ["outputs", "half"], ["stretched"]),
            make.make_node("Add", ["stretched", "middle"], ["mean"]),
            make.make_node("Max", ["mean", "low"], ["above"]),
            make.make_node("Min", ["above", "high"], ["action"]),
        ]
        action = make.make_tensor_value_info("action", float32, ["batch", len(low)])
    graph = make.make_graph(
        nodes,
        "policy",
        [make.make_tensor_value_info("observation", float32, ["batch", observed])],
        [action, make.make_tensor_value_info("outputs", float32, ["batch", len(bias)])],
        kept,
    )
    model = make.make_model(
        graph,
        producer_name="pgc",
        producer_version=__version__,
        opset_imports=[make.make_opsetid("", OPSET)],
        ir_version=9,  # what runtimes of the last years read
    )
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _hub(run: Run, policy: LearntPolicy, folder: Folder, audited: str | None) -> None:
    folder.make(folder.path)
    for name in ("policy.safetensors", "config.yaml", "privacy.json", "curve.png"):
        if (run.path / name).exists():
            folder.write(name, (run.path / name).read_bytes())
    with contextlib.suppress(PgcError):  # without the package, the other files are there
        folder.write("policy.onnx", onnx_model(policy))
    said = run.privacy
    folder.write("README.md", card(run, said, audited).encode())


def card(run: Run, said: dict[str, Any], audited: str | None = None) -> str:
    """Returns the README.md of a hub folder: what the policy does, and its privacy card.

    `said` is the run's privacy.json.
    """
    summary, world = run.summary, run.config.world
    epsilon = said["epsilon"]
    private = isinstance(epsilon, int | float) and math.isfinite(epsilon)
    per_report = f"{said['epsilon_per_report']:g}" if private else "none: no privacy"
    command = f"pgc audit --mechanism {run.config.mechanism}"
    command += f" --epsilon {said['epsilon_per_report']:g}" if private else ""
    parameters = ", ".join(f"{k} = {v}" for k, v in said["parameters"].items() if v is not None)
    rows = {
        "Mechanism": f"{said['mechanism']} ({parameters})",
        "ε of one report": per_report,
        "ε of one agent, in all": f"{epsilon:g}" if private else "none: no privacy",
        "Unit of privacy": said["unit_of_privacy"],
        "Neighbouring inputs": said["neighbouring"],
        "Against whom": said["against"],
        "Accounting": said["composition"],
        "Guarantee": said["guarantee"],
        "Start": said.get("start") or "drawn at random",
        "Not protected": "; ".join(said["not_protected"]),
        "Audit of the mechanism": audited or "not audited here",
        "Audit it again": f"`{command}`",
        "How the agents ran": said["simulation"],
    }
    table = "\n".join(f"| {name} | {text} |" for name, text in rows.items())
    tags = ["reinforcement-learning", "pgc", *(["differential-privacy"] if private else [])]
    return f"""---
library_name: pgc
tags: [{", ".join(tags)}]
---

# A policy for {world}

Learnt with pgc {__version__} from {summary["received"]:,} reports of simulated agents. The averaged
policy scores {summary["averaged_score_mean"]:.4g}: the mean of {run.config.eval_episodes} greedy
episodes in each world of the population.

```python
import pgc

policy = pgc.load("policy.safetensors")
action = policy.act(observation)
```

## Privacy card

| | |
|---|---|
{table}
"""
