"""Writes docs/wire-vectors.json anew: `python -m tests.wire.make_vectors`. Only when the format changes: reports are random."""

import json
import struct

import numpy as np

from pgc.randomise.exact.lattice import radius
from pgc.randomise.exact.words import public_words
from pgc.wire import Offer, Report
from tests.wire.samples import make_offer
from tests.wire.test_wire import VECTORS, a_report

CASES = (
    ("laplace", 0, 0.0, 1.0), ("laplace", 3, 0.5, 2.0), ("prs", 0, 0.0, 1.0), ("prs, unbiased", 0, 0.5, 5.0),
    ("prs", 3, 0.5, 1.0), ("prs-sign", 0, 0.0, 5.0), ("prs-sign", 3, 0.1, 5.0),
    ("duchi", 0, 0.0, 0.5), ("duchi", 3, 0.0, 0.5), ("duchi", 5, 0.0, 500.0),
    ("duchi, lifted", 3, 0.25, 1.0), ("duchi, lifted", 0, 0.0, 1.0), ("index", 0, 0.0, 1.0), ("index", 3, 0.5, 1.0),
    ("index, lifted", 3, 0.0, 1.0), ("index, lifted", 0, 0.0, 2.0), ("index, large", 0, 0.5, 5.0), ("index", 2, 0.0, 60.0),
)  # fmt: skip
ABOUT = (
    "`reports`: an offer, a report that answers it, and what an aggregator makes of both. n is the report's "
    "dimension, clip is C, size and nearest are as in the offer, score_nano_epsilon is the ε of the noisy boolean, "
    "offer_number is hexadecimal, most significant digit first. N, c and mu are those of docs/wire.md (lifted: in n "
    "+ 1); T is T(ε/d̂) for prs and prs-sign, T(ε) for duchi. code lists bits from bit 0; noisy_boolean is null if "
    "it was not asked for; estimate is e, or W e with a basis, printed with seven digits, good to 1e-5; "
    "first_public_words are given even where none are needed. `refused`: bytes that no decoder may accept; a report "
    "stands with its offer."
)


def derived(offer: Offer) -> dict:
    """Numbers on the way."""
    mechanism = offer.query.mechanism
    inner = getattr(mechanism, "inner", mechanism)
    name = offer.query.name
    if name == "laplace":
        return {"N": radius(mechanism.epsilon)}
    if name == "index":
        return {"c": inner.inside, "mu": float(f"{inner.moments.mean:.7g}")}
    if name == "duchi":
        return {"T": inner.keep, "mu": float(f"{inner.moments.mean:.7g}")}
    return {"T": inner.highest_threshold}


def row(number: int, kind: str, columns: int, score: float, epsilon: float) -> dict:
    offer = make_offer(
        kind, columns=columns, score_epsilon=score, epsilon=epsilon, offer_id=0x0123456789ABCDEF + number, policy_version=number,
        expires_at=1_900_000_000 * (number % 2), episodes=1 + number, alpha=number / 32,
    )  # fmt: skip
    while True:
        report = a_report(offer)
        if (
            offer.query.name != "duchi" or epsilon > 9 or report.code[0] == number % 2
        ):  # some set, some not
            break
    query = offer.query
    return {
        "mechanism": query.name, "flags": query.flags, "n": query.dim, "d": len(offer.theta), "columns": columns,
        "nano_epsilon": query.nano_epsilon, "score_nano_epsilon": query.score_nano_epsilon, "clip": query.clip,
        "size": query.size,
        "nearest": query.nearest, "offer_number": f"{offer.offer_id:016x}", "policy_version": offer.policy_version,
        "expires_at": offer.expires_at, "episodes": offer.episodes, "alpha": offer.alpha,
        "first_public_words": public_words(offer.public_seed, 2).tolist(), **derived(offer),
        "code": np.asarray(report.code).astype(int).tolist(), "noisy_boolean": report.score_bit,
        "estimate": [float(f"{x:.7g}") for x in report.vector(offer)],
        "offer": offer.encode().hex(), "report": report.encode(offer).hex(),
    }  # fmt: skip


def refused() -> list[dict]:
    offer, laplace = make_offer("prs", score_epsilon=0.5), make_offer("laplace", score_epsilon=0.5)
    lifted, plain = make_offer("index, lifted"), make_offer("duchi")
    wide = make_offer("prs", dim=30).encode()
    duchi, index = make_offer("duchi").encode(), make_offer("index").encode()
    data, sent = offer.encode(), a_report(offer).encode(offer)
    numbers = a_report(laplace).encode(laplace)
    offers = {
        "another version": b"\xd2" + data[1:],
        "one byte less": data[:-1],
        "one byte more": data + b"\0",
        "a number of θ is not finite": data[:-4] + b"\0\0\xc0\x7f",
        "alpha is −0": data[:23] + b"\0\0\0\0\0\0\0\x80" + data[31:],
        "mechanism 6": data[:39] + b"\6" + data[40:],
        "a flag of another mechanism": data[:40] + b"\1" + data[41:],
        "no ε": data[:41] + bytes(8) + data[49:],
        "d̂ = 7, n = 6": data[:65] + b"\x07" + data[66:],
        "d̂ = 24, n = 30": wide[:65] + b"\x18" + wide[66:],
        "mechanism 0": data[:39] + b"\0" + data[40:],
        "alpha is 2": data[:23] + struct.pack("<d", 2.0) + data[31:],
        "alpha is NaN": data[:23] + struct.pack("<d", float("nan")) + data[31:],
        "it expires at 2⁶³": data[:13] + bytes(7) + b"\x80" + data[21:],
        "C = 0": data[:57] + bytes(8) + data[65:],
        "C is infinite": data[:57] + struct.pack("<d", float("inf")) + data[65:],
        "ε_b above 10¹²": data[:49] + struct.pack("<Q", 10**12 + 1) + data[57:],
        "duchi with C = 2": duchi[:57] + struct.pack("<d", 2.0) + duchi[65:],
        "M = 1": index[:65] + struct.pack("<II", 1, 1) + index[73:],
        "M = 65,537": index[:65] + struct.pack("<II", 65_537, 5) + index[73:],
        "K = 0": index[:69] + bytes(4) + index[73:],
        "K = M": index[:69] + struct.pack("<I", 256) + index[73:],
        "d = 0": data[:31] + bytes(4) + data[35:],
        "columns above d": data[:35] + struct.pack("<I", 7) + data[39:],
        "K without index": data[:69] + b"\1" + data[70:],
        "no episodes": data[:21] + bytes(2) + data[23:],
    }
    reports = {
        "another version": (offer, b"\xe2" + sent[1:]),
        "another offer number": (offer, sent[:1] + b"\0" + sent[2:]),
        "another policy version": (offer, sent[:9] + b"\0" + sent[10:]),
        "one byte more": (offer, sent + b"\0"),
        "one byte less": (offer, sent[:-1]),
        "a bit that means nothing": (offer, sent[:-1] + b"\x10"),
        "number 100 of a code of 100": (lifted, a_report(lifted).encode(lifted)[:13] + b"\x64"),
        "an integer is −2³¹": (laplace, numbers[:13] + b"\0\0\0\x80" + numbers[17:]),
        "a noisy boolean that was not asked for": (
            plain,
            a_report(plain).encode(plain)[:13] + b"\x02",
        ),
        "the noisy boolean is 2": (laplace, numbers[:-1] + b"\2"),
    }
    made = [{"why": why, "offer": wrong.hex()} for why, wrong in offers.items()]
    return made + [
        {"why": why, "offer": its.encode().hex(), "report": wrong.hex()}
        for why, (its, wrong) in reports.items()
    ]


def main() -> None:
    rows = [row(number, *case) for number, case in enumerate(CASES)]
    lines = {
        key: ",\n".join("  " + json.dumps(r, ensure_ascii=False) for r in of)
        for key, of in (("reports", rows), ("refused", refused()))
    }
    VECTORS.write_text(
        f'{{"about": {json.dumps(ABOUT, ensure_ascii=False)},\n'
        + ",\n".join(f' "{key}": [\n{text}\n ]' for key, text in lines.items())
        + "\n}\n"
    )
    for r in rows:
        Report.decode(bytes.fromhex(r["report"]), Offer.decode(bytes.fromhex(r["offer"])))


if __name__ == "__main__":
    main()
