"""Valid offers and reports of every kind."""

import numpy as np

from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.wire import Offer, Query

KINDS = {
    "laplace": {},
    "prs": {"reduced_dim": 3},
    "prs, unbiased": {"reduced_dim": 4, "unbiased": True},
    "prs-sign": {"reduced_dim": 2},
    "duchi": {},
    "duchi, lifted": {"lift": True},
    "index": {"code_size": 256},
    "index, lifted": {"code_size": 100, "lift": True},
    "index, large": {"code_size": 4096},
}


def make_offer(
    kind="index",
    *,
    dim=6,
    columns=0,
    epsilon=1.0,
    score_epsilon=0.0,
    offer_id=0x0123456789ABCDEF,
    **settings,
):
    name = kind.partition(",")[0]
    mechanism = make_mechanism(name, dim=columns or dim, epsilon=epsilon, clip=0.5, **KINDS[kind])
    rng = np.random.default_rng(dim + columns)
    return Offer(
        offer_id=offer_id,
        policy_version=settings.pop("policy_version", 7),
        query=Query.of(mechanism, score_epsilon),
        theta=rng.standard_normal(dim).astype(np.float32),
        basis=rng.standard_normal((dim, columns)).astype(np.float32) if columns else None,
        **settings,
    )


def all_offers() -> list[Offer]:
    return [
        make_offer(kind, columns=columns, score_epsilon=score, epsilon=epsilon)
        for kind in KINDS
        for columns, score, epsilon in ((0, 0.0, 1.0), (3, 0.25, 0.5), (4, 0.0, 5.0))
        if not (columns == 3 and "unbiased" in kind)
    ]
