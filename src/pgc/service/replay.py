"""Computes θ again from the accepted reports alone, so that anyone with the store can check it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from pgc.config import from_yaml
from pgc.errors import PgcError, refuse_code
from pgc.service import store
from pgc.service.database import Database
from pgc.service.model import Model
from pgc.update.aggregator import AggregatorState


class Replayed(NamedTuple):
    """The result of applying all reports of a model again, in their order."""

    state: AggregatorState
    """The state after the last report, with those that wait in the buffer."""
    reports: int
    versions: int
    compared: int
    """How many of these versions the store has, so that they could be compared."""
    differs: int | None
    """The first version that differs from that of the store; None if all are the same to the
    bit."""


def replay(database: Database, name: str, *, run_code: bool = False) -> Replayed:
    """Computes a model again from version 0, report by report, and compares its versions.

    Refuses a store in which the numbers of reports have a gap, or an offer was answered twice, and,
    unless `run_code`, one whose config names code.
    """
    with database.reading() as db:
        configs = store.list_models(db)
        if name not in configs:
            raise PgcError(f"there is no model '{name}'; there is {', '.join(configs) or 'none'}")
        listed = {row.version: row for row in store.list_versions(db, name, None)}
        reports, first = store.reports_after(db, name, 0), store.load_version(db, name, 0)
    if [report.seq for report in reports] != list(range(1, len(reports) + 1)):
        raise PgcError(f"{name}: the reports are not numbered 1, 2, 3, …")
    if len({report.offer_id for report in reports}) != len(reports):
        raise PgcError(f"{name}: an offer was answered twice")
    config = from_yaml(configs[name])
    refuse_code(vars(config), f"the model '{name}'", run_code)
    model = Model(name, config)
    if first is not None:
        model.state = model.unpack(first.state)  # θ_0 may be the operator's own
    restored = sorted(
        (row.applied, version, row.restored)
        for version, row in listed.items()
        if row.restored is not None
    )
    wanted = {target for _, _, target in restored}
    states: dict[int, AggregatorState] = {}
    bases: dict[int, np.ndarray | None] = {}
    compared, made = 0, 0
    differs: int | None = None

    def arrived() -> None:
        """Compares the version that was just made, and remembers what later reports need of it."""
        nonlocal compared, differs, made
        made += 1
        bases[model.version] = model.as_published(model.state).template.basis
        if model.version in wanted:
            states[model.version] = model.state
        if model.version in listed:
            with database.reading() as db:
                kept = store.load_version(db, name, model.version)
            if kept is not None:
                compared += 1
                if differs is None and not same(model.unpack(kept.state), model.state):
                    differs = model.version

    arrived()
    for report in [*reports, None]:
        while restored and (report is None or restored[0][0] < report.seq):
            accepted, number, target = restored.pop(0)
            if model.version + 1 != number:
                raise PgcError(
                    f"{name}: version {number} was rolled back from another version than "
                    f"{model.version}"
                )
            model.state = model.rolled_back(states[target], model.state, accepted)
            arrived()
        if report is None:
            break
        if restored and restored[0][1] == model.version + 1:
            continue  # it was accepted, and then dropped by the rollback that follows
        before = model.version
        model.accept(
            [model.estimate(report.offer_id, report.payload, bases[report.version])],
            [report.version],
        )
        if model.version != before:
            arrived()
    return Replayed(model.state, len(reports), made, compared, differs)


def same(one: AggregatorState, other: AggregatorState) -> bool:
    """Whether two states are the same to the bit."""
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )
