"""`pgc export`: takes a learnt policy to PyTorch, to ONNX, or to a folder for a model hub."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from pgc.cli.fields import Json
from pgc.cli.parsing import parse, print_json
from pgc.errors import PgcError, require


@dataclass(frozen=True)
class Export:
    """Take the policy of a finished run elsewhere. Nothing is uploaded.

    What is written takes observations as the environment gives them: scaling is part of it.
    """

    run: Positional[Path]
    """A folder made by pgc train."""
    to: Literal["hub", "onnx", "torch"] = "hub"
    """onnx: a model from observations to actions (needs pgc[onnx]). torch: a state_dict of a
    torch.nn.Sequential (needs pgc[torch]). hub: a folder as model hubs expect it, with the policy,
    a README.md with its privacy card, and the ONNX model if that package is there."""
    policy: Literal["averaged", "theta"] = "averaged"
    """Which of the saved policies: averaged, or theta (the last one)."""
    trial: int = 0
    """Of which trial, counted from 0."""
    out: Path | None = None
    """The file or folder to write; by default inside the run's folder."""
    json: Json = False


def export(given: list[str]) -> int:
    """Runs `pgc export` with the given flags."""
    args = parse(Export, "export", given)
    run_export = require("pgc.runs.export", "train").export
    audited = _audited(args.run) if args.to == "hub" else None
    made = run_export(
        args.run, to=args.to, out=args.out, trial=args.trial, which=args.policy, audited=audited
    )
    if args.json:
        return print_json({"made": str(made)})
    print(made)
    return 0


def _audited(folder: Path) -> str:
    """Audits the mechanism of a run on every path, and returns what a privacy card says of it."""
    from pgc.privacy.audit.audit import FAMILY_ERROR, audit_mechanism
    from pgc.privacy.audit.paths import paths_of
    from pgc.runs.run import Run

    try:
        mechanism = Run.open(folder).problem().randomiser.mechanism
    except PgcError as error:  # such as code of somebody else's
        return f"not audited ({error})"
    if not math.isfinite(mechanism.epsilon):
        return "nothing to audit: no privacy was claimed"
    paths = paths_of(mechanism)
    rows = [audit_mechanism(mechanism, path, error=FAMILY_ERROR / len(paths)) for path in paths]
    bounds = ", ".join(f"{row.path} at least {row.lower_bound:.3f}" for row in rows)
    verdicts = ", ".join(sorted({row.verdict for row in rows}))
    return (
        f"{verdicts}: claimed ε = {rows[0].claim:g}; found, with {1 - FAMILY_ERROR:.0%} confidence "
        f"together: {bounds}"
    )
