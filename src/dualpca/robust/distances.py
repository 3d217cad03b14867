"""Score and orthogonal distances, their cut-offs, and the robust scatter of scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_dask_array
from scipy.special import chdtr

from ..estimators._base import shifted
from ..linalg import Array, fix_signs, host_sample, namespace, to_numpy
from ..operators import Operator
from ..operators.block_ops import row_norms
from ..operators.row_blocks import RowBlocked
from .scale import bulk, chi2_quantile, cutoff, location_scale, repeated

#: Scores within this quantile of chi-squared enter the scatter.
INNER = 0.975

#: The first location and scale of each coordinate come from at most so many rows.
FEW = 5000

#: A residual below this share of the row is computed from its entries: the difference of squares
#: would keep too few digits of it.
SMALL = 3e-2


def scores_and_distances(X: Operator, V: Array) -> tuple[Array, Array]:
    """``X V`` and ``||x_i - V V^T x_i||``: one pass over rows that are centred already."""
    if not isinstance(X, RowBlocked) or X.sparse:
        Y = X @ V
        return Y, between(X.row_norms(), Y)

    def part(rows: slice, block: Any) -> Array:
        Y, size = block @ V, row_norms(block)
        rest = between(size, Y)
        xp = namespace(Y)
        small = rest < SMALL * size
        if bool(xp.any(small)):
            close = block[small]
            for _ in range(2):  # twice, as the first difference cancels what V is off orthonormal
                close = close - (close @ V) @ V.T
            rest[small] = row_norms(close)
        return xp.concat([Y, rest[:, None]], axis=1)

    s = V.shape[1]
    both = X.map_rows(part, s + 1)
    return both[:, :s], both[:, s]


def between(size: Array, Y: Array) -> Array:
    """``sqrt(size^2 - ||y||^2)`` without squares, which might overflow."""
    xp = namespace(size)
    inside = row_norms(Y)
    inside = xp.where(inside < size, inside, size)
    return xp.sqrt(size - inside) * xp.sqrt(size + inside)


@dataclass(frozen=True)
class Measured:
    """The rows beside a subspace: scores, distances, and the bulk of the distances of good rows.

    ``some_scores`` and ``some_orthogonal`` are those on the host, of a sample where rows are spread.
    """

    center: np.ndarray
    V: Array
    scores: Array
    orthogonal: Array
    some_scores: np.ndarray
    some_orthogonal: np.ndarray
    location: float
    scale: float
    floor: float
    counted: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        center: np.ndarray,
        V: Array,
        scores: Array,
        orthogonal: Array,
        weights: Array | None,
        floor: float = 0.0,
        counted: np.ndarray | None = None,
    ) -> Measured:
        """With the bulk of these distances."""
        some, apart = (host_sample(a).astype(float, copy=False) for a in (scores, orthogonal))
        location, scale = bulk(apart, some, None if weights is None else host_sample(weights))
        return cls(center, V, scores, orthogonal, some, apart, location, scale, floor, counted)

    def cutoff(self, q: float) -> float:
        """The q-quantile of the orthogonal distances of good rows, and what rounding may add to it.

        As squares: where rows have one distance in common, the same rows stay within it when they
        are measured again.
        """
        return float(np.hypot(cutoff(self.location, self.scale, q), self.floor))

    @property
    def flat(self) -> bool:
        """Whether no row leaves the subspace, so that distances from it tell nothing."""
        some = self.some_orthogonal
        return float((some if self.counted is None else some[self.counted]).max()) <= self.floor


def measure(
    X: RowBlocked, center: np.ndarray, V: Array, weights: Array | None, spread: float
) -> Measured:
    """Scores and distances of all rows: one pass."""
    scores, orthogonal = scores_and_distances(shifted(X, center), V)
    if X.is_distributed:  # numbers of rows are on the host of each worker
        orthogonal = orthogonal.map_blocks(to_numpy, dtype=orthogonal.dtype)
    scores, orthogonal = X.persist_rows(scores, orthogonal)
    eps = float(namespace(V).finfo(V.dtype).eps)
    floor = 64 * (eps * spread + np.finfo(float).eps * float(np.linalg.norm(center)))
    return Measured.of(center, V, scores, orthogonal, weights, floor)


def robust_scatter(
    T: np.ndarray, weights: np.ndarray | None, fixed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Location and covariance of the scores T (n x k), reweighted twice from coordinatewise ones.

    First each coordinate by itself (:func:`location_scale`); then mean and covariance of the rows
    within the INNER quantile of chi-squared, their squared distances brought to its median. Location 0
    where ``fixed``. With fewer than 5 k rows the coordinates stay by themselves.
    """
    if weights is not None:
        T, weights = T[weights > 0], weights[weights > 0]
    n, k = T.shape
    mass = np.ones(n) if weights is None else weights
    # In their principal axes, so that the basis they come in does not matter.
    middle = np.zeros(k) if fixed else mass @ T / mass.sum()
    Q = np.linalg.eigh(_scatter(T, middle, mass))[1]
    T = T @ Q
    few = np.linspace(0, n, min(n, FEW), endpoint=False).astype(int)
    wide = np.stack([repeated(t, None if weights is None else mass[few]) for t in T[few].T])
    location, scale = location_scale(wide, wide.shape[1] // 2 + 1)
    location = np.zeros(k) if fixed else location
    covariance = np.diag(scale**2)
    if n < 5 * k:
        return Q @ location, Q @ covariance @ Q.T
    cut = chi2_quantile(INNER, k)
    factor = INNER / float(chdtr(k + 2, cut))
    for _ in range(2):
        distance2 = squared_distances(T, location, covariance)
        middle = float(np.median(repeated(distance2, weights)))
        if not 0 < middle < math.inf:
            break
        inner = mass * (distance2 * (chi2_quantile(0.5, k) / middle) <= cut)
        total = float(inner.sum())
        if total <= 2 * k:
            break
        location = location if fixed else inner @ T / total
        covariance = factor * _scatter(T, location, inner) / total
    return Q @ location, Q @ covariance @ Q.T


#: Rows that are worked on at once, so that no second matrix of scores is made.
ROWS = 2**15


def _scatter(T: np.ndarray, location: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """``sum_i m_i (t_i - location)(t_i - location)^T``."""
    total = np.zeros((T.shape[1], T.shape[1]))
    for start in range(0, len(T), ROWS):
        centred = T[start : start + ROWS] - location
        total += (centred.T * mass[start : start + ROWS]) @ centred
    return total


def squared_distances(T: np.ndarray, location: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """``(t - location)^T C^+ (t - location)`` for each row; directions without variance left out."""
    values, P = np.linalg.eigh(covariance)
    some = values > max(values[-1], 0.0) * 1e-12
    if not some.any():
        return np.zeros(len(T))
    found = np.empty(len(T))
    with np.errstate(over="ignore"):
        for start in range(0, len(T), ROWS):
            along = (T[start : start + ROWS].astype(float) - location) @ P[:, some]
            found[start : start + ROWS] = ((along / np.sqrt(values[some])) ** 2).sum(axis=1)
    return found


@dataclass(frozen=True)
class Components:
    """Axes by decreasing robust variance, the centre, and the variance around the subspace."""

    V: np.ndarray
    variances: np.ndarray
    center: np.ndarray
    rest: float
    score_distances: Array


def ordered(found: Measured, q: float, weights: Array | None, fixed: bool) -> Components:
    """The eigenvectors of the robust scatter of the scores of good rows."""
    orthogonal = found.some_orthogonal
    counted = np.ones(len(orthogonal), dtype=bool) if found.counted is None else found.counted
    good = counted & (orthogonal <= max(found.cutoff(q), float(orthogonal[counted].min())))
    mass = None if weights is None else host_sample(weights)[good]
    scores = found.some_scores
    location, covariance = robust_scatter(scores[good], mass, fixed)
    variances, P = np.linalg.eigh(covariance)
    V0 = to_numpy(found.V).astype(float)
    V = V0 @ P[:, ::-1]
    return Components(
        V * fix_signs(V)[None, :],
        np.clip(variances[::-1], 0.0, None),
        found.center + V0 @ location,
        float(np.average(orthogonal[good] ** 2, weights=mass)),
        _score_distances(found.scores, location, covariance),
    )


def _score_distances(scores: Array, location: np.ndarray, covariance: np.ndarray) -> Array:
    """``sqrt((t - location)^T C^+ (t - location))`` for each row of the scores."""
    if is_dask_array(scores):
        blocks: Any = scores.map_blocks  # type: ignore[union-attr]
        return blocks(lambda T: _score_distances(T, location, covariance), dtype=float, drop_axis=1)
    return np.sqrt(squared_distances(to_numpy(scores), location, covariance))
