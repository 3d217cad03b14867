"""Ours against PcaHubert with alpha = 0.5 on the haystacks: where it is worse, and how much faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .robust_catalogue import OURS, RIVAL

#: Errors that differ by less are equal: without noise both are rounding.
FLOOR = 1e-6

#: A sine above this is a failure to find the subspace.
LOST = 0.5


def verdict(cells: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]]) -> list[str]:
    """Lines on the cells up to 45 % of outliers, and the smallest ratio of the times."""
    worse: list[str] = []
    lost: list[str] = []
    ratios: dict[str, float] = {}
    compared = 0
    for key, row in cells.items():
        pairs = _pairs(row.get(OURS, []), row.get(RIVAL, []))
        if not pairs:
            continue
        ours, rival = (_errors(side) for side in zip(*pairs, strict=True))
        name = ", ".join(key)
        mine, theirs = (_seconds(side) for side in zip(*pairs, strict=True))
        if np.isfinite(theirs / mine):
            ratios[name] = theirs / mine
        if pairs[0][0]["fraction"] > 0.45:
            continue
        compared += 1
        spread = min(_spread(ours), _spread(rival))
        a, b = np.median(ours), np.median(rival)
        if a > 1.1 * b + spread + FLOOR:
            worse.append(f"{name}: {a:.2g} against {b:.2g}")
        alone = int(np.sum((ours > LOST) & (rival <= LOST)))
        if alone:
            lost.append(f"{name}: {alone} of {len(pairs)} seeds")
    if not ratios:
        return [f"{OURS} or {RIVAL} did not run: nothing to compare.", ""]
    slowest = min(ratios, key=lambda name: ratios[name])
    rule = "more than 10 % and the smaller interquartile range over the seeds (a failed fit counts as 1)"
    return [
        *_listed(f"Cells up to 45 % where {OURS} is worse than {RIVAL} by {rule}", worse, compared),
        *_listed(f"Cells up to 45 % where {OURS} alone misses (sine > {LOST})", lost, compared),
        f"Smallest ratio of the times, {RIVAL} / {OURS}: {ratios[slowest]:.3g} ({slowest}); "
        f"median {np.median(list(ratios.values())):.3g}.",
        "",
    ]


def _pairs(ours: Sequence[Any], rival: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Records of the same seed."""
    found = {r["seed"]: r for r in rival}
    return [(r, found[r["seed"]]) for r in ours if r["seed"] in found]


def _errors(records: Sequence[Any]) -> np.ndarray:
    """The errors; a fit that failed has found nothing, which is a sine of 1."""
    return np.array([1.0 if r.get("error") is None else r["error"] for r in records])


def _seconds(records: Sequence[Any]) -> float:
    """The median of the seconds of the fits that did not fail."""
    numbers = [r["seconds"] for r in records if r.get("seconds") is not None]
    return float(np.median(numbers)) if numbers else float("nan")


def _spread(errors: np.ndarray) -> float:
    low, high = np.percentile(errors, [25, 75])
    return float(high - low)


def _listed(title: str, entries: Sequence[str], compared: int) -> list[str]:
    if not entries:
        return [f"{title}: none of {compared}.", ""]
    return [f"{title}, {len(entries)} of {compared}:", "", *(f"- {e}" for e in entries), ""]
