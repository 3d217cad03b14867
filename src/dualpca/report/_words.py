"""Sentences that several parts of a report share: counts of rows, and why a row is far away."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..inspect import FittedModel
from ..io.tables.table import counted
from ._drawn_rows import Detail, Rows
from ._html import number, percent

#: The most reasons of a row in words, and the least share of its squared distance that is one.
REASONS, LEAST = 3, 0.05

#: How a robust model flags rows, by its ``flags_by_``.
FLAGS = {
    "orthogonal": "their distance from the subspace",
    "score": "their distance within the subspace",
    "density": "both distances together, from the subspace and within it",
}


def drawn(rows: Rows) -> str:
    """Return how many rows are drawn, and how many flagged ones are among them."""
    if len(rows.index) == rows.total:
        return counted(rows.total, "row")
    flagged = 0 if rows.flagged is None else int(rows.flagged.sum())
    among = f" with {flagged:,} of {rows.n_flagged:,} flagged ones" if flagged else ""
    return f"A sample of {len(rows.index):,} of {rows.total:,} rows{among}"


def flagged_words(rows: Rows) -> str:
    """Return how many rows are flagged."""
    if rows.n_flagged == 0:
        return "No row is flagged."
    share = percent(rows.n_flagged / rows.total)
    return f"Flagged: {rows.n_flagged:,} of {counted(rows.total, 'row')} ({share})."


def how_many(times: float) -> str:
    """Return a ratio in words: "4.2 times", "1,530 times"."""
    return f"{times:,.0f} times" if 100 <= times < 1e9 else f"{times:.2g} times"


def passes(n: int) -> str:
    """Return a number of passes."""
    return f"{n:,} pass{'' if n == 1 else 'es'} over the data"


def times_the_limit(fitted: FittedModel, rows: Rows, i: int) -> float | None:
    """Return how many times its limit the distance of a row is; None where that is no number."""
    assert rows.distances is not None
    pairs = zip(rows.distances[i], fitted.limits.values(), strict=True)
    squares = [(d / limit) ** 2 if limit else math.inf for d, limit in pairs if limit is not None]
    times = math.sqrt(math.fsum(squares))
    return times if math.isfinite(times) else None


def reasons(details: Sequence[Detail], names: Sequence[str]) -> list[str]:
    """Return the variables that put a row where it is, with value, expected value and share."""
    known = [detail for detail in details[:REASONS] if detail[3]]
    told = [detail for detail in known if (detail[3] or 0.0) >= LEAST] or known[:1]
    texts = []
    for j, value, expected, share in told:
        words = f"{names[j]} is {number(value)}"
        if expected is not None and value != expected and math.isfinite(value - expected):
            side = "above" if value > expected else "below"
            words += f", {side} the expected {number(_beside(expected, value))}"
        texts.append(f"{words} ({100 * (share or 0.0):.0f}\u00a0%)")
    if told and sum(share or 0.0 for *_, share in told) < 0.5:
        texts.append("smaller shares of many others")
    return texts


def _beside(expected: float, value: float) -> float:
    """Return an expected value without digits that are small beside its difference from the value."""
    digits = 3 - math.floor(math.log10(abs(value - expected)))
    return round(expected, max(digits, 1)) + 0.0  # no -0
