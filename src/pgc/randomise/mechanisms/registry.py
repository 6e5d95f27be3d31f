"""The mechanisms by their names, and which of them has the least error at a dimension and an ε."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from pgc.errors import PgcError, did_you_mean, in_one_line, load
from pgc.randomise.mechanisms.base import Guarantee, Mechanism
from pgc.randomise.mechanisms.duchi import Duchi
from pgc.randomise.mechanisms.forms import FIRST_OUTSIDE, LAST_OUTSIDE, LIFTED, WireForm
from pgc.randomise.mechanisms.index_code import IndexCode
from pgc.randomise.mechanisms.laplace import Laplace
from pgc.randomise.mechanisms.laplace_readings import (
    CoordinatewiseLaplace,
    EuclideanLaplace,
    WideCoordinatewiseLaplace,
)
from pgc.randomise.mechanisms.lift import NormLift
from pgc.randomise.mechanisms.none import NoPrivacy
from pgc.randomise.mechanisms.piecewise import Piecewise
from pgc.randomise.mechanisms.privunit import PrivUnit
from pgc.randomise.mechanisms.privunitg import PrivUnitG
from pgc.randomise.mechanisms.prs import ProjectedRandomSign, paper_reduced_dim
from pgc.randomise.mechanisms.prs_sign import ProjectedSign, best_reduced_dim
from pgc.randomise.mechanisms.score_bit import ScoreBit
from pgc.randomise.mechanisms.sphere import OnSphere

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        NoPrivacy, Laplace, ProjectedRandomSign, ProjectedSign, Piecewise, Duchi, IndexCode,
        PrivUnitG, PrivUnit, CoordinatewiseLaplace, WideCoordinatewiseLaplace, EuclideanLaplace,
    )
}  # fmt: skip

ON_THE_WIRE: dict[int, type[Mechanism]] = {
    kind.wire_number: kind for kind in MECHANISMS.values() if kind.wire_number is not None
}
"""The mechanisms that an offer can ask for, by their wire numbers."""

Kind = TypeVar("Kind", bound=type[Mechanism])


def register(kind: Kind) -> Kind:
    """Makes a user's own mechanism known by its name, to `make_mechanism`, `pgc.train` and the
    rest. It is a class decorator.
    """
    known = MECHANISMS.get(kind.name)
    if known is not None and (known.__module__, known.__qualname__) != (
        kind.__module__,
        kind.__qualname__,
    ):
        raise PgcError(f"there is a mechanism called '{kind.name}' already; choose another name")
    if known is kind:
        return kind
    for old in [number for number, one in ON_THE_WIRE.items() if one.name == kind.name]:
        del ON_THE_WIRE[old]  # the class of that name was defined anew
    number = kind.wire_number
    if number is not None:
        if not FIRST_OUTSIDE <= number <= LAST_OUTSIDE:
            raise PgcError(
                f"wire_number of '{kind.name}' must be from {FIRST_OUTSIDE} to {LAST_OUTSIDE}, not "
                f"{number}"
            )
        other = ON_THE_WIRE.get(number)
        if other is not None and other.name != kind.name:
            raise PgcError(
                f"'{other.name}' has the wire_number {number} already; choose another for "
                f"'{kind.name}'"
            )
        ON_THE_WIRE[number] = kind
    MECHANISMS[kind.name] = kind
    return kind


def on_the_wire(mechanism: Mechanism) -> bool:
    """Whether an offer can ask for this mechanism."""
    number, core = mechanism.core.wire_number, mechanism.core
    plain = mechanism is core or (type(mechanism) is NormLift and core.lifts)
    return plain and number is not None and ON_THE_WIRE.get(number) is type(core)


def mechanism_for(form: WireForm, *, dim: int, epsilon: float) -> Mechanism:
    """Returns the mechanism that an offer asks for, or refuses."""
    kind = ON_THE_WIRE[form.number]
    if not form.flags & LIFTED:
        return kind.from_wire(form, dim=dim, epsilon=epsilon)
    if not kind.lifts:
        raise PgcError(f"{kind.name} cannot be lifted")
    plain = form._replace(clip=1.0, flags=form.flags & ~LIFTED)
    inner = kind.from_wire(plain, dim=dim + 1, epsilon=epsilon)
    if not isinstance(inner, OnSphere):
        raise PgcError(f"{kind.name} reports no direction, and cannot be lifted")
    return NormLift(dim=dim, epsilon=epsilon, clip=form.clip, inner=inner)


def find_mechanism(name: str) -> type[Mechanism]:
    """Returns a mechanism's class by its name, or by MODULE:CLASS from any importable module."""
    if ":" in name:
        found = load(name, "mechanism")
        if not (isinstance(found, type) and issubclass(found, Mechanism)):
            raise PgcError(f"'{name}' is not a pgc Mechanism")
        return found
    if name not in MECHANISMS:
        raise PgcError(
            f"unknown mechanism '{name}'{did_you_mean(name, MECHANISMS)}; choose one of: "
            f"{', '.join(MECHANISMS)}; or MODULE:CLASS of your own"
        )
    return MECHANISMS[name]


def make_mechanism(
    name: str, *, dim: int, epsilon: float, clip: float, lift: bool = False, **options: Any
) -> Mechanism:
    """Returns the mechanism of that name. At ε = ∞ it is always `none`, which clips and adds no
    noise.

    With `lift`, a mechanism that reports a direction reports the norm as well (up to `clip`). Only
    some mechanisms have the other options: `reduced_dim` (prs, prs-sign, piecewise), `unbiased`
    (prs), `code_size` (index).
    """
    kind = find_mechanism(name)
    if math.isinf(epsilon) and epsilon > 0:
        kind = NoPrivacy
    elif lift and not issubclass(kind, OnSphere):
        raise PgcError(
            f"the norm lift works with index, privunit, privunitg and duchi, not with {name}"
        )
    if lift and issubclass(kind, OnSphere):
        inner = kind.make(dim=dim + 1, epsilon=epsilon, clip=1.0, **options)
        assert isinstance(inner, OnSphere)
        return NormLift(dim=dim, epsilon=epsilon, clip=clip, inner=inner)
    made = kind.make(dim=dim, epsilon=epsilon, clip=clip, **options)
    try:  # a promise that cannot be stated is refused before any work
        promised = made.guarantee.epsilon
    except PgcError:
        raise
    except Exception as error:  # whatever a user's code does
        raise PgcError(f"{name} cannot state its guarantee ({in_one_line(error)})") from None
    if not promised > 0:
        raise PgcError(f"the guarantee of {name} has ε = {promised:g}, which no mechanism has")
    return made


def fitted(name: str, *, dim: int, epsilon: float, **options: Any) -> Mechanism:
    """Returns the mechanism of that name with the clip that suits a gradient of norm 1 in a random
    direction. `best` compares these.
    """
    clip = find_mechanism(name).fitting_clip(dim)
    return make_mechanism(name, dim=dim, epsilon=epsilon, clip=clip, unbiased=True, **options)


def best(dim: int, epsilon: float, *, most_bytes: int | None = None) -> Mechanism:
    """Returns the mechanism whose report of a d-dimensional direction has the least expected
    squared error at an honest ε.

    With `most_bytes`, only mechanisms with reports of at most that length are considered.
    Mechanisms that state no error are never considered.
    """
    candidates = []
    for name in MECHANISMS:
        if name == "none" or dim < MECHANISMS[name].smallest_dim:
            continue
        made = fitted(name, dim=dim, epsilon=epsilon, code_size=256 if most_bytes == 1 else None)
        if (
            made.guarantee.honest
            and math.isfinite(made.error())
            and (most_bytes is None or made.report_bytes <= most_bytes)
        ):
            candidates.append(made)
    if not candidates:
        raise PgcError(
            f"no mechanism has reports of at most {most_bytes} bytes; the smallest take 1"
        )
    return min(candidates, key=lambda mechanism: mechanism.error())


__all__ = [
    "MECHANISMS",
    "ON_THE_WIRE",
    "CoordinatewiseLaplace",
    "Duchi",
    "EuclideanLaplace",
    "Guarantee",
    "IndexCode",
    "Laplace",
    "Mechanism",
    "NoPrivacy",
    "NormLift",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "ProjectedRandomSign",
    "ProjectedSign",
    "ScoreBit",
    "WideCoordinatewiseLaplace",
    "best",
    "best_reduced_dim",
    "find_mechanism",
    "fitted",
    "make_mechanism",
    "mechanism_for",
    "on_the_wire",
    "paper_reduced_dim",
    "register",
]
