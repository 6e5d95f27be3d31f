"""Q: what randomises a gradient. Each mechanism is a small file: its guarantee, prepare, draw, decode."""

import math

from pgc.errors import PgcError
from pgc.mechanisms.base import Guarantee, Mechanism
from pgc.mechanisms.laplace import Laplace
from pgc.mechanisms.laplace_readings import CoordinatewiseLaplace, EuclideanLaplace, WideCoordinatewiseLaplace
from pgc.mechanisms.none import NoPrivacy
from pgc.mechanisms.prs import ProjectedRandomSign, paper_reduced_dim
from pgc.mechanisms.score_bit import ScoreBit

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (NoPrivacy, Laplace, ProjectedRandomSign, CoordinatewiseLaplace, WideCoordinatewiseLaplace, EuclideanLaplace)
}


def make_mechanism(name: str, *, dim: int, epsilon: float, clip: float, reduced_dim: int | None = None) -> Mechanism:
    """The mechanism of that name. At ε = ∞ every mechanism is `none`: clip, no noise."""
    if name not in MECHANISMS:
        raise PgcError(f"unknown mechanism '{name}'; choose one of: {', '.join(MECHANISMS)}")
    kind = NoPrivacy if math.isinf(epsilon) and epsilon > 0 else MECHANISMS[name]
    if kind is ProjectedRandomSign:
        d_hat = paper_reduced_dim(epsilon, dim) if reduced_dim is None else reduced_dim
        return ProjectedRandomSign(dim=dim, epsilon=epsilon, clip=clip, reduced_dim=d_hat)
    if kind is NoPrivacy:
        return NoPrivacy(dim=dim, clip=clip)
    return kind(dim=dim, epsilon=epsilon, clip=clip)


__all__ = [
    "MECHANISMS",
    "CoordinatewiseLaplace",
    "EuclideanLaplace",
    "Guarantee",
    "Laplace",
    "Mechanism",
    "NoPrivacy",
    "ProjectedRandomSign",
    "ScoreBit",
    "WideCoordinatewiseLaplace",
    "make_mechanism",
    "paper_reduced_dim",
]
