"""`pgc evaluate` and `pgc compare`: look at finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pgc.config import TrainConfig
from pgc.engines.backend import scores_of
from pgc.errors import PgcError
from pgc.local_training.worlds.population import Population, Variation
from pgc.runs import figures, metrics
from pgc.runs.film import episode_film
from pgc.runs.folder import Folder, finite
from pgc.runs.programs import keep_programs
from pgc.runs.run import Run

BELOW, ABOVE = (0.5, 0.8), (1.25, 2.0)
"""Factors for evaluation outside the population: BELOW multiplies the lowest value of each varied
field, ABOVE the highest."""


MADE = {"compare.png", "compare.pdf", "summary.json"}
"""The files that `compare` leaves in its folder."""


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`: the run's folder, and the mean greedy score at each ψ."""

    path: Path
    summary: dict[str, Any]


def evaluate(
    run: str | Path | Run,
    *,
    policy: str = "averaged",
    episodes: int = 100,
    seed: int = 1,
    population: tuple[str, ...] | None = None,
    gif: bool = False,
    style: figures.Style = "screen",
    run_code: bool = False,
) -> Evaluation:
    """Scores a saved policy at each ψ, inside and outside the population it was trained on.

    Writes evaluation.json, evaluation.png and, with `gif`, episode.gif into the run's folder;
    evaluation.pdf, at the width of a paper's column, with `style` "paper".
    `run_code` lets it run the code that the folder's config names (MODULE:NAME).
    """
    keep_programs()
    run = run if isinstance(run, Run) else Run.open(Path(run), run_code=run_code)
    problem = run.problem()
    policies = run.policies()
    if policy not in policies:
        raise PgcError(f"a run holds the policies 'theta' (final) and 'averaged', not '{policy}'")
    if episodes < 1:
        raise PgcError(f"episodes must be at least 1, not {episodes}")
    if not 0 <= seed < 2**32:
        raise PgcError(f"seed must be between 0 and 2³² − 1, not {seed}")
    world, net, thetas = problem.training.world, problem.training.policy, policies[policy]
    if thetas.shape != (run.config.trials, net.dim):
        raise PgcError(
            f"{run.path / 'policy.safetensors'} holds policies whose shape does not match "
            "config.yaml"
        )

    known = problem.training.population
    asked = (
        known.grid() + _beyond(known)
        if population is None
        else Population.parse(world, population).grid()
    )
    names = [_name(known, psi) for psi in asked]
    trained = [known.contains(psi) for psi in asked]
    scores = scores_of(problem, thetas, asked, episodes=episodes, seed=seed)
    inside = scores[:, trained]
    summary = {
        "run": str(run.path),
        "policy": policy,
        "trials": run.config.trials,
        "episodes": episodes,
        "seed": seed,
        "threshold": world.score_threshold,
        "scores": {name: float(s) for name, s in zip(names, scores.mean(axis=0), strict=True)},
        "trained_on": [name for name, t in zip(names, trained, strict=True) if t],
        "score_mean": float(inside.mean()) if any(trained) else None,
        "success_ratio": float(np.mean(inside.mean(axis=1) >= world.score_threshold))
        if any(trained)
        else None,
    }
    run.folder.write_json("evaluation.json", summary)
    title = f"{run.config.world}, {policy} policy: {figures.label_of(run)}"
    bars = figures.score_bars(names, scores, trained, world, title, style)
    run.folder.write(f"evaluation.{figures.file_type(style)}", bars)
    if gif:
        run.folder.write("episode.gif", episode_film(problem, thetas[0], asked[0], names[0], seed))
    return Evaluation(run.path, finite(summary))


def compare(
    runs: Sequence[str | Path | Run],
    *,
    out: str | Path,
    labels: Sequence[str] | None = None,
    style: figures.Style = "screen",
    run_code: bool = False,
) -> dict[str, Any]:
    """Puts finished runs on one figure, and returns a table of their results.

    The table says in which settings the runs differ. First success, success ratio and AUC are of
    the first N submissions, where N is that of the shortest run, so that they can be compared. The
    table also has AUC relative to the run without privacy, if one is among them. The figure is
    compare.png, or with `style` "paper" compare.pdf at the width of a paper's column.
    """
    opened = [r if isinstance(r, Run) else Run.open(r, run_code=run_code) for r in runs]
    if not opened:
        raise PgcError("name at least one run folder to compare")
    worlds = {r.config.world for r in opened}
    if len(worlds) > 1:
        raise PgcError(
            f"these runs are of different worlds ({', '.join(sorted(worlds))}); compare runs of "
            "one world"
        )
    summaries = [r.summary for r in opened]
    fsts = [np.array([np.inf if f is None else f for f in s["fst"]]) for s in summaries]
    base = next(
        (i for i, s in enumerate(summaries) if s["epsilon"] is None and not s["control"]), None
    )
    rows = []
    differs = differences(opened)
    if labels is not None and len(labels) != len(opened):
        raise PgcError(f"give a label for each of the {len(opened)} runs, not {len(labels)}")
    labels = figures.labels_of(opened, differs) if labels is None else list(labels)
    shortest = min(run.config.submissions for run in opened)
    whole, fsts = fsts, [np.where(fst <= shortest, fst, np.inf) for fst in fsts]
    for run, summary, fst, label in zip(opened, summaries, fsts, labels, strict=True):
        relative = None if base is None else metrics.relative_auc(fst, fsts[base], shortest)
        rows.append(
            {
                "run": str(run.path),
                "label": label,
                **{
                    k: summary[k]
                    for k in ("mechanism", "epsilon", "control", "trials", "submissions")
                },
                "differs": {name: getattr(run.config, name) for name in differs},
                "fst_median": float(metrics.median(fst)),
                "success_ratio": float(metrics.success_ratio(fst, shortest)[0]),
                "auc": metrics.auc(fst, shortest),
                "relative_auc": relative,
                **{
                    k: summary[k]
                    for k in (
                        "final_score_mean",
                        "final_success_ratio",
                        "averaged_score_mean",
                        "averaged_success_ratio",
                    )
                },
            }
        )
    beaten = _no_better_than_control(opened, labels)
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or {p.name for p in folder.iterdir()} - MADE):
        raise PgcError(f"{folder} holds something other than a comparison; choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        where = Folder(folder)
        drawn = figures.comparison(opened, whole, labels, style)
        for name in MADE:  # of an earlier comparison
            (folder / name).unlink(missing_ok=True)
        where.write(f"compare.{figures.file_type(style)}", drawn)
        compared = {
            "compared_submissions": shortest,
            "differs": differs,
            "runs": rows,
            "no_better_than_control": beaten,
        }
        result: dict[str, Any] = finite(compared)
        where.write_json("summary.json", result)
    except OSError as error:
        raise PgcError(
            f"cannot write to {folder} ({error.strerror}); choose another --out"
        ) from None
    return result


def _no_better_than_control(runs: Sequence[Run], labels: Sequence[str]) -> list[str]:
    """Returns the labels of the runs whose averaged policy scores no more than that of their
    control, which differs from them in nothing but the zero gradient and the seed.

    A control has the same noise and no gradient, so what it reaches was not learnt.
    """
    listed = []
    for run, label in zip(runs, labels, strict=True):
        controls = [
            other.summary["averaged_score_mean"]
            for other in runs
            if other.config.control
            and not run.config.control
            and set(differences([run, other])) <= {"control", "seed"}
        ]
        if controls and run.summary["averaged_score_mean"] <= max(controls):
            listed.append(label)
    return listed


def differences(runs: Sequence[Run]) -> list[str]:
    """Returns the names of the settings in which the runs differ, in the order of the config."""
    configs = [run.config for run in runs]
    names = [f.name for f in fields(TrainConfig) if f.name not in ("start", "learnt_directions")]
    return [name for name in names if len({repr(getattr(c, name)) for c in configs}) > 1]


def _name(population: Population, psi: Any) -> str:
    """Returns a name for ψ: its fields that vary in the population or differ from the default."""
    varied = {v.field for v in population.variations}
    fields = [
        f for f in psi._fields if f in varied or getattr(psi, f) != getattr(population.base, f)
    ]
    return " ".join(f"{f}={getattr(psi, f):g}" for f in fields) or "default ψ"


def _beyond(population: Population) -> list[Any]:
    """Returns values of ψ outside the population.

    One varied field at a time is below its lowest or above its highest value, while the others have
    their middle value.
    """
    middle = {v.field: v.grid()[len(v.grid()) // 2] for v in population.variations}
    centre = population.base._replace(**middle)
    ends = [
        (v.field, end * scale)
        for v in population.variations
        for end, scales in _ends(v)
        for scale in scales
    ]
    return [centre._replace(**{field: value}) for field, value in ends]


def _ends(variation: Variation) -> list[tuple[float, tuple[float, ...]]]:
    return [(min(variation.values), BELOW), (max(variation.values), ABOVE)]
