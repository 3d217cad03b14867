"""Score and orthogonal distances of rows, their cut-offs, and the robust scatter of scores."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from array_api_compat import is_dask_array

from ..linalg import Array, eps, fix_signs, host_sample, map_row_blocks, namespace, to_numpy
from ..operators import Matrix, Operator
from ..operators.block_ops import multiply, row_norms
from ..operators.row_blocks import RowBlocked
from .choice import Measured
from .limits import distance_limit, left_out, limits_of_good
from .sample import ROWS, by_weight, share_and_most
from .scale import (
    SAMPLE_ROWS,
    bulk,
    centered_at,
    cutoff,
    thin_factor,
)
from .scatter import mahalanobis, robust_scatter

#: The kinds of rows: beyond no limit, that of the score distance, of the orthogonal one, or both.
KINDS = ("regular", "good leverage", "orthogonal outlier", "bad leverage")

#: A residual below this share of the row is computed from its entries: a difference of squares would
#: keep too few of its digits.
SMALL = 3e-2


def scores_and_distances(X: Operator, V: Array) -> tuple[Array, Array]:
    """Return ``X V`` and ``||x_i - V V^T x_i||`` of centred rows, in one pass over blocks.

    The kernels take two passes and half the time, where no residual is small beside its row; among many
    rows, some tell whether that may be so.
    """
    if not isinstance(X, RowBlocked) or X.sparse:
        Y = X @ V
        return Y, orthogonal_distance(X.row_norms(), Y)
    if X.rows_by_kernels and X.shape[0] >= 10 * SAMPLE_ROWS:
        first = X.take(np.linspace(0, X.shape[0], SAMPLE_ROWS, endpoint=False).astype(int))
        for rows in (Matrix(first), X):
            Y, size = rows @ V, rows.row_norms()
            distance = orthogonal_distance(size, Y)
            if (distance < SMALL * size).any():
                break
        else:
            return Y, distance

    def part(rows: slice, block: Any) -> Array:
        Y, size = multiply(block, V), row_norms(block)
        distance = orthogonal_distance(size, Y)
        xp = namespace(Y)
        small = distance < SMALL * size
        if bool(xp.any(small)):
            residual = block[small]
            for _ in range(2):  # the second removes what V is off orthonormal
                residual = residual - (residual @ V) @ V.T
            distance[small] = row_norms(residual)
        return xp.concat([Y, distance[:, None]], axis=1)

    both = X.map_rows(part, V.shape[1] + 1)
    return both[:, :-1], both[:, -1]


def orthogonal_distance(norms: Array, scores: Array, sizes: Array | None = None) -> Array:
    """Return ``sqrt(norm^2 - ||y||^2)``, without squares, which might overflow.

    In feature space the norms are themselves differences of squares, of rows of the given ``sizes``:
    the distance is 0 where it may be their rounding.
    """
    xp = namespace(norms)
    inside = row_norms(scores)
    inside = xp.where(inside < norms, inside, norms)
    distance = xp.sqrt(norms - inside) * xp.sqrt(norms + inside)
    if sizes is None:
        return distance
    least = eps(norms) ** 0.5 * np.maximum(8 * norms, 4 * sizes)
    return np.where(distance > least, distance, 0)


def score_distances(T: Array, variances: Array) -> Array:
    """Return Mahalanobis distances from 0 of scores, without directions of variance 0."""
    xp = namespace(T)
    varying = variances > 1e-12 * xp.max(variances)
    deviation = xp.sqrt(xp.where(varying, variances, xp.ones_like(variances)))
    scaled = xp.where(varying[None, :], T / deviation[None, :], xp.zeros_like(T))
    with np.errstate(over="ignore"):
        return xp.sqrt(xp.sum(scaled * scaled, axis=1))


@dataclass(frozen=True)
class RowDistances:
    """Scores and orthogonal distances of rows beside a centre and a subspace.

    ``counted`` tells which rows count, None if all do. A distance up to ``floor`` may be rounding.
    ``directions`` is the number of those beside the subspace.
    """

    center: np.ndarray
    V: np.ndarray
    scores: Array
    orthogonal: Array
    weights: Array | None
    floor: float = 0.0
    counted: np.ndarray | None = None
    directions: int = 1

    @cached_property
    def on_host(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Scores, distances and weights on the host: of a sample where the rows are on a cluster."""
        weights = None if self.weights is None else host_sample(self.weights).astype(float)
        return host_sample(self.scores), host_sample(self.orthogonal).astype(float), weights

    @cached_property
    def _bulk(self) -> tuple[float, float]:
        scores, orthogonal, weights = self.on_host
        return bulk(orthogonal, scores, self.directions, weights)

    def cutoff(self, q: float) -> float:
        """Return the q-quantile of the orthogonal distances of good rows, and what rounding may add.

        As squares: rows with one distance in common stay within it when they are measured again.
        """
        return float(np.hypot(cutoff(*self._bulk, q), self.floor))

    def limit(self, q: float) -> float:
        """Return the q-quantile of the orthogonal distances of good rows, whatever their tail is."""
        _, orthogonal, weights = self.on_host
        limit = distance_limit(orthogonal, *self._bulk, q, weights)
        return float(np.hypot(limit, self.floor))

    def limits(
        self, score: np.ndarray, noise: float, q: float, *, scales: bool = True
    ) -> tuple[float, float, float]:
        """Return the q-quantiles, of new good rows, of score distances, of orthogonal ones, and of both.

        They come from the rows that are near the subspace, each as if the fit had been without it. Where
        ``scales``, rows may have scales of their own.
        """
        scores, beside, weights = self.on_host
        good, s = self.good(self.limit(q)) & np.isfinite(score), scores.shape[1]
        mass = None if weights is None else weights[good]
        distances = left_out(score[good], beside[good], s, mass)
        floor = self.floor if scales else math.inf
        limits = limits_of_good(*distances, noise, s, q, mass, floor)
        return limits[0], float(np.hypot(limits[1], self.floor)), limits[2]

    def good(self, limit: float) -> np.ndarray:
        """Return which rows on the host count and are within the limit."""
        good = self.on_host[1] <= limit
        return good if self.counted is None else good & self.counted

    @cached_property
    def measured(self) -> Measured:
        """At most ROWS rows beside the subspace, most of which the start has not seen."""
        scores, residuals = host_sample(self.scores), host_sample(self.orthogonal)
        chosen = compared_rows(len(scores), self.weights)
        scores, residuals = (a[chosen].astype(float) for a in (scores, residuals))
        return Measured(residuals, scores, np.hypot(residuals, row_norms(scores)))

    @property
    def flat(self) -> bool:
        """Whether no row leaves the subspace, so that orthogonal distances say nothing."""
        return bool((self.good(math.inf) == self.good(self.floor)).all())


def compared_rows(count: int, weights: Array | None) -> np.ndarray:
    """Return the rows on the host, ROWS of them at most, by which subspaces are compared."""
    if weights is None:
        return np.linspace(0, count, min(count, ROWS), endpoint=False).astype(int)
    return by_weight(host_sample(weights).astype(float), ROWS, np.random.default_rng(0))


def rounding(X: Operator, center: np.ndarray, spread: float) -> float:
    """Return the distance up to which it may be rounding, of rows of this spread."""
    return 64 * (eps(X) * spread + eps(center) * float(np.linalg.norm(center)))


def row_distances(
    X: Operator,
    center: np.ndarray,
    V: np.ndarray,
    weights: Array | None,
    spread: float,
    directions: int,
) -> RowDistances:
    """Return the distances of all rows: one pass, or one product with a kernel."""
    view, factor, counted = centered_at(X, center), thin_factor(X, V), None
    if X.implicit:
        scores = view @ factor
        orthogonal = orthogonal_distance(view.row_norms(), scores, X.row_norms())
        counted = None if weights is None else weights > 0
        floor = 8 * math.sqrt(eps(X)) * spread
    else:
        scores, orthogonal = scores_and_distances(view, factor)
        if X.is_distributed:  # each worker keeps what has one number a row on its host
            orthogonal = orthogonal.map_blocks(to_numpy, dtype=orthogonal.dtype)
        scores, orthogonal = X.persist_rows(scores, orthogonal)
        floor = rounding(X, center, spread)
    measured = scores, orthogonal, weights, floor, counted
    return RowDistances(center, V, *measured, directions)


def measured_beside(
    X: Operator, center: np.ndarray, V: np.ndarray, weights: Array | None, spread: float, df: int
) -> Measured:
    """Return the rows by which subspaces are compared, beside one of them: they alone are measured."""
    if not (X.implicit or X.is_distributed):
        X, weights = Matrix(X.take(compared_rows(X.shape[0], weights))), None
    return row_distances(X, center, V, weights, spread, df).measured


@dataclass(frozen=True)
class RobustComponents:
    """Axes V by decreasing robust variance, the centre, the mean squared orthogonal distance of good
    rows, and the score distance of each row.
    """

    V: np.ndarray
    variances: np.ndarray
    center: np.ndarray
    residual_variance: float
    score_distances: Array

    def too_few(self, wanted: Any, rows: int, d: int) -> int:
        """Return how many more components hold the share ``wanted`` at least.

        It is 0 for a number of them, and for "outliers" and methods, which promise no share.
        """
        promise = wanted == "auto" or not isinstance(wanted, str | Integral | None)
        if not promise:
            return 0
        share, most = share_and_most(wanted, min(rows, d), rows)
        held, s = float(self.variances.sum()), len(self.variances)
        missing = share * (1 - 1e-12) * (held + self.residual_variance) - held
        last = float(self.variances[-1])
        if missing <= 0 or s >= most or not last > 0:
            return 0
        return min(math.ceil(missing / last), most - s)  # the next ones are no larger than the last


def robust_components(rows: RowDistances, q: float, fixed: bool) -> RobustComponents:
    """Return the eigenvectors of the robust scatter of the scores of good rows."""
    scores, orthogonal, weights = rows.on_host
    nearest = float(orthogonal[rows.good(math.inf)].min())
    good = rows.good(max(rows.limit(q), nearest))
    mass = good.astype(float) if weights is None else good * weights
    T = scores if is_dask_array(rows.scores) else rows.scores
    location, covariance = robust_scatter(T, mass, fixed)
    variances, P = np.linalg.eigh(covariance)
    V = rows.V @ P[:, ::-1]
    return RobustComponents(
        V * fix_signs(V)[None, :],
        np.clip(variances[::-1], 0.0, None),
        rows.center + rows.V @ location,
        float(np.average(orthogonal[good] ** 2, weights=mass[good])),
        _mahalanobis(rows.scores, location, covariance),
    )


def leading_components(
    X: Operator, rows: RowDistances, found: RobustComponents, share: float, q: float, spread: float
) -> tuple[RowDistances, RobustComponents]:
    """Return the fewest components that hold the share of the variance, and the rows beside them.

    The variances of the others become noise, their scores part of the orthogonal distances: one pass.
    The rows that count are those that are near with all components.
    """
    variances, noise = found.variances, found.residual_variance
    held = np.cumsum(variances) / ((float(variances.sum()) + noise) or 1.0)
    s = min(int(np.searchsorted(held, share)) + 1, len(variances))
    if s == len(variances):
        return rows, found
    V, df = found.V[:, :s], rows.directions + len(variances) - s
    near = rows.good(rows.limit(q))
    rows = replace(row_distances(X, found.center, V, rows.weights, spread, df), counted=near)
    kept, noise = variances[:s], noise + float(variances[s:].sum())
    distances = _mahalanobis(rows.scores, np.zeros(s), np.diag(kept))
    return rows, RobustComponents(V, kept, found.center, noise, distances)


def _mahalanobis(scores: Array, location: np.ndarray, covariance: np.ndarray) -> Array:
    return map_row_blocks(scores, lambda T: to_numpy(mahalanobis(T, location, covariance)))
