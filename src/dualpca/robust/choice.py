"""The choice between subspaces: within what distance rows lie that vary along most of the axes.

A subspace through the outliers' line fits them exactly and, with its other axes, many good rows well. By
residuals alone it beats the truth. But a good row varies along most axes of its subspace, a row on a line
or in a cluster along one or none: rows count by the share of the axes along which they vary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..operators import Operator
from .scale import half, typical_size

# Figures are shares of success on the grid of experiments.robust_grid with other values, each measured
# with the others as they were then; experiments.robust_constants measures all of them again.

#: A row varies along an axis where its score is beyond this many noise levels of a coordinate (1: 0.993;
#: 1.5 and 2: 0.996; 3: 0.987).
VARY = 1.5

#: A subspace is judged by the distance within which COVER of the rows lie; where none holds a majority
#: by the distance for LOW_COVER.
COVER, LOW_COVER = 0.48, 0.2

#: Of candidates whose reach is at most NEARLY times the least, those count that lose at most the share
#: LOST of the wide rows within HELD times the least. The one with the most wide rows within BEYOND times
#: the least is taken: MORE of them than an earlier one has, or GUARD more than the start. (NEARLY, LOST:
#: 1.3 without LOST 0.996, but curved data fails; 1.35, 0.2: 0.993; 1.45, 0.2: 0.992; 1.5, 0.1: 0.986;
#: 1.5, 0.05: 0.982. BEYOND 1.5: 0.989. GUARD 0.1 flags a quarter of a ring with landmarks, 0.3 none.)
NEARLY, LOST, HELD, BEYOND, MORE, GUARD = 1.45, 0.2, 2.0, 1.25, 0.02, 0.3

#: A candidate is sharp where rows that count for MAJORITY of all are near, and for at most GAP lie
#: between BEYOND and HELD: then what it does not hold are outliers, and LOST does not matter. (Without
#: it 0.989 instead of 0.997 on 936 cells; a cluster off the axes of many components looks wide.)
MAJORITY, GAP = 0.5, 0.02

#: A residual below this share of the row is rounding: it comes from a difference of squares.
ROUNDING = 1e-6

#: Below this mean share of axes, noise is as large as the scores, and the shares tell nothing.
INFORMATIVE = 0.5

#: A row counts fully only if it varies along at least this many axes. Good rows vary along different
#: numbers of axes, and may count for no less than COUNTED on average.
FEW_AXES, COUNTED = 1.5, 0.8

#: A subspace whose reach is more than LITTLE of the rows' distance from the centre explains no majority.
#: Then another is taken that is at least FAR times nearer to LOW_COVER of the rows.
LITTLE, FAR = 0.8, 2.0


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows beside a subspace: distances from it, scores within it, and distances from its centre."""

    residuals: np.ndarray
    scores: np.ndarray
    sizes: np.ndarray

    @cached_property
    def _nearest(self) -> dict[int, np.ndarray]:
        return {}

    @cached_property
    def _along(self) -> dict[int, np.ndarray]:
        return {}

    @cached_property
    def order(self) -> np.ndarray:
        """The rows by increasing residual."""
        return np.argsort(self.residuals)

    @cached_property
    def usual_size(self) -> float:
        """The distance from the centre within which COVER of the rows lie."""
        k = int(COVER * len(self.sizes))
        return float(np.partition(self.sizes, k)[k])

    @cached_property
    def floor(self) -> float:
        """The residual up to which it may be rounding."""
        return ROUNDING * typical_size(self.sizes)

    def level(self, h: int) -> float:
        """Return the h-th smallest residual."""
        return float(self.residuals[self.nearest(h)].max())

    def nearest(self, h: int) -> np.ndarray:
        """Return the indices of the h rows of smallest residual."""
        if h not in self._nearest:
            self._nearest[h] = np.argpartition(self.residuals, h - 1)[:h]
        return self._nearest[h]

    def varying(self, h: int, noise: float) -> np.ndarray:
        """Return for each row along which axes it varies by more than ``noise``.

        The axes are the principal ones of the scores of the h nearest rows about their median.
        """
        if h not in self._along:
            near = self.scores[self.nearest(h)]
            middle = np.median(near, axis=0)
            axes = np.linalg.eigh((near - middle).T @ (near - middle))[1]
            self._along[h] = np.abs((self.scores - middle) @ axes)
        return self._along[h] > noise


def measure(X: Operator, center: np.ndarray, W: np.ndarray) -> Measured:
    """Return the rows of X beside the subspace W about the centre."""
    Y = X.matmul(W) - center @ W
    along = X.matmul(center[:, None])[:, 0]
    squares = np.maximum(X.row_norms() ** 2 - 2 * along + center @ center, 0.0)
    residuals = np.sqrt(np.maximum(squares - np.linalg.vecdot(Y, Y), 0.0))
    return Measured(residuals, Y, np.sqrt(squares))


def freedom(X: Operator, s: int) -> int:
    """Return the number of directions that rows have beside a subspace of s dimensions."""
    return max(min(X.shape[1], X.shape[0] - 1) - s, 1)


def noise_level(candidates: Sequence[Measured], h: int, df: int) -> float:
    """Return VARY times the least residual of the h-th row, as the size of one coordinate."""
    return VARY * max(min(c.level(h) for c in candidates), candidates[0].floor) / math.sqrt(df)


@dataclass(frozen=True)
class Standing:
    """How a subspace stands among candidates.

    The share of wide rows that it holds, within HELD times the least reach; that of those near, within
    BEYOND times it; and whether it is sharp: most rows are near, and hardly any between the two.
    """

    reach: float
    held: float
    near: float
    sharp: bool


def standings(candidates: Sequence[Measured], df: int, cover: float = COVER) -> list[Standing]:
    """Return how each candidate stands.

    Wide is what varies along more than half of the axes. Where rows vary along few axes of any
    candidate, all rows count as wide.
    """
    n, s = candidates[0].scores.shape
    h = half(n, s) if cover == COVER else min(n, max(int(cover * n), 2 * (s + 1)))
    noise = noise_level(candidates, h, df)
    shares = [np.count_nonzero(c.varying(h, noise), axis=1) / s for c in candidates]
    pairs = list(zip(candidates, shares, strict=True))
    if max(float(w[c.nearest(h)].mean()) for c, w in pairs) < INFORMATIVE:
        shares = [np.ones(n) for _ in candidates]
    counts = [row_counts(c, w, h) for c, w in zip(candidates, shares, strict=True)]
    floor = candidates[0].floor
    reach = [
        max(reach_of(c, count, cover), floor) for c, count in zip(candidates, counts, strict=True)
    ]
    found = []
    for c, w, count, r in zip(candidates, shares, counts, reach, strict=True):
        held, near = (c.residuals <= times * min(reach) for times in (HELD, BEYOND))
        between = float(count[held & ~near].sum()) / n
        sharp = float(count[near].sum()) >= MAJORITY * n and between <= GAP
        wide_held, wide_near = (np.count_nonzero(a & (w > 0.5)) / n for a in (held, near))
        found.append(Standing(r, wide_held, wide_near, sharp))
    return found


def row_counts(rows: Measured, shares: np.ndarray, h: int) -> np.ndarray:
    """Return for how much each row counts, given the shares of the axes along which rows vary.

    A row counts fully if it varies along as large a share of the axes as the nearest rows do on average,
    and less if along fewer.
    """
    near = rows.nearest(h)
    least = min(max(INFORMATIVE, FEW_AXES / rows.scores.shape[1]), 1.0)
    counts = np.minimum(shares / max(float(shares[near].mean()), least), 1.0)
    return counts / max(float(counts[near].mean()), COUNTED)


def reach_of(rows: Measured, counts: np.ndarray, cover: float) -> float:
    """Return the distance within which rows lie that count for the share ``cover`` of all."""
    n, order = len(counts), rows.order
    k = int(np.searchsorted(np.cumsum(counts[order]), cover * n))
    return float(rows.residuals[order[k]]) if k < n else math.inf


def first_of(found: Sequence[Standing], more: float) -> int:
    """Return the first candidate with nearly the most wide rows near, among the best in other respects.

    Those are the ones of nearly the least reach, and of these the ones that hold nearly the most rows,
    or are sharp. ``more`` is the share by which a later one must have more rows near.
    """
    limit = NEARLY * min(one.reach for one in found)
    short = [i for i, one in enumerate(found) if one.reach <= limit]
    most = max(found[i].held for i in short)
    holding = [i for i in short if found[i].sharp or (1 + LOST) * found[i].held >= most]
    nearest = max(found[i].near for i in holding)
    return next(i for i in holding if (1 + more) * found[i].near >= nearest)


def choose(candidates: Sequence[Measured], df: int, more: float = MORE) -> tuple[int, list[float]]:
    """Return the candidate to take, and the reaches that decided.

    Where none of them holds a majority of the rows, they are compared at a low cover: many outliers in
    all directions leave only few rows near.
    """
    found = standings(candidates, df)
    k = first_of(found, more)
    if found[k].reach > LITTLE * candidates[k].usual_size:
        low = standings(candidates, df, LOW_COVER)
        if low[k].reach > FAR * min(one.reach for one in low):
            k, found = first_of(low, more), low
    return k, [one.reach for one in found]


def clearly_better(new: Measured, old: Measured, df: int) -> bool:
    """Return whether a new subspace is to be taken instead of the old one."""
    return choose([old, new], df, more=GUARD)[0] == 1


def start_stands(before: Measured, after: Measured, doubtful: bool, df: int) -> bool:
    """Return whether the start is to be kept instead of DCA's subspace.

    DCA may leave a good start for rows that fit exactly. Where it is ``doubtful`` which rows are good,
    DCA has to be clearly better than the start; else it must not be clearly worse.
    """
    if doubtful:
        return not clearly_better(after, before, df)
    return clearly_better(before, after, df)


def narrow_rows(rows: Measured, h: int, df: int) -> np.ndarray:
    """Return which rows are near and vary along at most half of the axes, as on a line."""
    varying = rows.varying(h, noise_level([rows], h, df))
    return (rows.residuals <= 1.5 * rows.level(h)) & (varying.mean(axis=1) <= 0.5)
