"""Randomised response in integers: how many of 2³² words tell the truth about one bit."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, localcontext

WORD = 2**32


def keep_threshold(epsilon: float | Decimal) -> int:
    """Returns ⌊2³²·e^ε/(e^ε+1)⌋, computed in 60-digit arithmetic and rounded down.

    In Warner's (1965) randomised response, the truth is told when a uniform 32-bit word is below
    this threshold. So kept/(2³² − kept) ≤ e^ε holds exactly.
    """
    if epsilon > WORD.bit_length():  # 2³²/(e^ε + 1) < 1, and e^ε may be too large to write down
        return WORD - 1
    with localcontext() as context:
        context.prec = 60
        power = Decimal(epsilon).exp()
        return int((WORD * power / (power + 1)).to_integral_value(rounding=ROUND_FLOOR))
