"""How numbers are written in a report."""

from __future__ import annotations

import math

from pgc.runs.progress import duration


def count(value: float | None) -> str:
    """Writes a first success time, or a dash where it is undefined."""
    return (
        "–" if value is None or math.isnan(value) else "∞" if math.isinf(value) else f"{value:,.0f}"
    )


def share(value: float | None, digits: int = 2) -> str:
    """Writes a ratio, or a dash where there is none."""
    return (
        "–"
        if value is None or math.isnan(value)
        else "∞"
        if math.isinf(value)
        else f"{value:.{digits}f}"
    )


def p_value(value: float) -> str:
    """Writes a p-value, which is never rounded to zero."""
    return "< .001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def epsilon(value: float) -> str:
    """Writes an ε, or ∞."""
    return "∞" if math.isinf(value) else f"{value:g}"


FORMS = {"count": count, "share": share, "p": p_value, "epsilon": epsilon, "duration": duration}
