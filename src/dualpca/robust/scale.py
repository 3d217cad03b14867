"""Robust location and scale: of one variable, of distances, and of rows; and centres that stay.

The coordinates of vectors are their entries; in feature space the coefficients A of ``Gamma^T A``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import chdtr, chdtri, ndtri

from ..linalg import Array, at_least, gram, is_single, namespace, norm, to_numpy
from ..operators import Centered, Matrix, Operator
from ..operators.block_ops import dense, multiply, row_norms
from ..operators.centering import Shifted

#: Values within this quantile of the first estimate enter the reweighted one, as in ROBPCA.
REWEIGHT = 0.975

#: Rows more than FAR scales below the bulk are a tail up to the share LOWER of all rows. Beyond it they
#: are the good rows, unless they vary less than the share THIN of all rows in some direction.
FAR, LOWER, THIN = 3.5, 0.1, 0.03

#: The densest part of the distances, as a share of all rows.
DENSEST = 0.48

#: ROBPCA takes this many directions through pairs of rows. A location and scale comes from about this
#: many rows, in AT_ONCE directions at once, or in as many as have CACHED numbers.
DIRECTIONS, SAMPLE_ROWS, AT_ONCE, CACHED = 250, 250, 64, 2**16

#: The centres by name.
CENTERS = ("geometric_median", "median", "mean")

#: Medians of columns are taken over this many numbers at a time.
COLUMN_CHUNK = 2**24


def chi2_quantile(q: float, k: float) -> float:
    """Return the q-quantile of chi-squared with k degrees of freedom."""
    return float(chdtri(k, 1 - q))


def typical_size(norms: np.ndarray) -> float:
    """Return the median; the mean where most norms are 0; 1 where all are."""
    middle = [(len(norms) - 1) // 2, len(norms) // 2]
    return float(np.partition(norms, middle)[middle].mean()) or float(np.mean(norms)) or 1.0


def half(n: int, s: int) -> int:
    """Return how many rows are taken to be good: h of ROBPCA with alpha = 1/2."""
    return min(n, max((n + s + 1) // 2, min(n, s + 1)))


def location_scale(Z: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the reweighted univariate minimum covariance determinant of each row of Z (m x n).

    The first location is the mean of the h neighbours of least variance, the first scale follows from
    the h-th distance to it. The result is the mean and the standard deviation of the values within
    their REWEIGHT quantile (Hubert, Rousseeuw and Vanden Branden 2005, ROBPCA).
    """
    n, each = Z.shape[1], np.arange(len(Z))
    h = min(max(h, 1), n)
    Z = np.sort(Z, axis=1)
    middle = Z[:, n // 2, None].copy()
    Z -= middle
    # In sums of squares a huge value takes the digits of the bulk. It is moved closer, and stays far.
    reach = 1e3 * (Z[:, h - 1 :] - Z[:, : n - h + 1]).min(axis=1, keepdims=True)
    if (Z[:, :1] < -reach).any() or (Z[:, -1:] > reach).any():
        Z = np.clip(Z, -reach, reach)
    sums, squares = np.zeros((2, Z.shape[0], n + 1))
    np.cumsum(Z, axis=1, out=sums[:, 1:])
    np.cumsum(Z * Z, axis=1, out=squares[:, 1:])
    mean = (sums[:, h:] - sums[:, : n - h + 1]) / h
    variance = (squares[:, h:] - squares[:, : n - h + 1]) / h - mean * mean
    location = mean[each, np.argmin(variance, axis=1)][:, None]
    # The h-th distance from the location is the least over the windows of h values around it.
    edges = np.maximum(location - Z[:, : n - h + 1], Z[:, h - 1 :] - location)
    cut, share = chi2_quantile(REWEIGHT, 1), min(h / n, 1 - 0.5 / n)
    reach = edges.min(axis=1, keepdims=True) * math.sqrt(cut / chi2_quantile(share, 1))
    first = np.count_nonzero(location - reach > Z, axis=1)
    last = np.count_nonzero(location + reach >= Z, axis=1)
    inside = np.maximum(last - first, 1)
    mean = (sums[each, last] - sums[each, first]) / inside
    variance = (squares[each, last] - squares[each, first]) / inside - mean**2
    variance = np.maximum(variance, 0.0) * REWEIGHT / chdtr(3, cut)  # the truncated one is less
    return middle[:, 0] + mean, np.sqrt(variance)


def bulk(
    distances: np.ndarray, scores: np.ndarray, df: int, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """Return location and scale of ``distance^(2/3)`` of the good rows.

    The power is nearly normal (Wilson and Hilferty). Outliers have large distances. Where the densest
    part of the rows lies far above a sizeable group, that part are outliers and the estimate is that of
    the group, provided that its scores span the subspace and its rows vary along most axes by more than
    their distance in one of ``df`` directions: a cluster or a line does not. A subspace of s dimensions
    passes through any s + 1 rows, so a group must have twice as many.
    """
    s = scores.shape[1]
    rows = repeated_rows(distances, weights)
    counted = scores if weights is None else scores[weights > 0]
    t = np.cbrt(distances[rows]) ** 2
    enough = max(LOWER * len(t), 2 * (s + 1), 5)
    while True:
        h = min(len(t), max(int(DENSEST * len(t)), 2 * (s + 1)))
        location, scale = (float(a[0]) for a in location_scale(t[None, :], h))
        lower = t < location - FAR * scale
        if lower.sum() < enough or not _spans(scores[rows[lower]], counted):
            return location, scale
        noise = np.median(distances[rows[lower]]) / math.sqrt(df)
        if not _varies(scores[rows[lower]], 2 * noise):
            return location, scale
        t, rows = t[lower], rows[lower]


def _varies(group: np.ndarray, noise: float) -> bool:
    """Return whether the rows of a group vary along half of its axes or more, on average."""
    deviation = group - np.median(group, axis=0)
    axes = np.linalg.eigh(deviation.T @ deviation)[1]
    return float((np.abs(deviation @ axes) > noise).mean()) >= 0.5


def _spans(group: np.ndarray, scores: np.ndarray) -> bool:
    """Return whether a group varies in every direction of the scores, if less than all rows do."""
    low, high = np.percentile(scores, [25, 75], axis=0)
    columns = high > low
    if not columns.any():
        return False
    Z = (group[:, columns] - group[:, columns].mean(axis=0)) / (high - low)[columns]
    return float(np.linalg.eigvalsh(Z.T @ Z / len(Z))[0]) > THIN**2


def cutoff(location: float, scale: float, q: float) -> float:
    """Return the q-quantile of the distances of good rows, from their :func:`bulk`."""
    return max(location + float(ndtri(q)) * scale, 0.0) ** 1.5


def repeated(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Repeat each value as often as its weight says: exactly for whole weights, else by quantiles."""
    return values[repeated_rows(values, weights)]


def repeated_rows(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the index of the value at each place of :func:`repeated`."""
    if weights is None:
        return np.arange(len(values))
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    count = min(max(round(float(total[-1])), 1), 10**6)
    places = (np.arange(count) + 0.5) * (total[-1] / count)
    return order[np.minimum(np.searchsorted(total, places), len(values) - 1)]


def least_outlying(X: Matrix, h: int, middle: np.ndarray, rng: np.random.Generator) -> Matrix:
    """Return the h rows of least Stahel-Donoho outlyingness, ``max_u |u^T x - location| / scale``.

    Half of the directions u pass through pairs of rows, as in ROBPCA. The others pass through a row and
    the middle of all rows: these show a tight cluster from where it stands out.
    """
    A, n = X.data, X.shape[0]
    first = rng.integers(0, n, DIRECTIONS)
    second = (first + rng.integers(1, max(n, 2), DIRECTIONS)) % n
    # Among few rows many are drawn twice.
    single, pairs = np.unique(first[::2]), np.unique([first[1::2], second[1::2]], axis=1)
    through, between, column = A[single], A[pairs[0]] - A[pairs[1]], middle[:, None]
    U = sp.vstack([through, between], format="csr") if X.sparse else np.r_[through, between]
    norms = np.concatenate([Centered(X, column).row_norms()[single], row_norms(between)])
    floor = 1e-10 * typical_size(X.row_norms())
    used = norms > floor
    U, norms, count = U[used], norms[used], np.count_nonzero(used[: len(single)])
    along = (A @ column).T  # the first ``count`` directions begin at the middle
    looked_at = slice(None, None, max(1, n // SAMPLE_ROWS))
    outlyingness, some = np.zeros(n), min(AT_ONCE, max(1, CACHED // n))
    for i in range(0, len(norms), some):
        z = dense(multiply(A, U[i : i + some].T)).T
        z[: max(count - i, 0)] -= along
        z /= norms[i : i + some, None]
        sample = z[:, looked_at]
        location, scale = location_scale(sample, half(sample.shape[1], h - (n + 1) // 2))
        # Where more than half of the rows agree in a direction, the others are far out.
        z -= location[:, None]
        z /= np.maximum(scale, floor)[:, None]
        np.maximum(outlyingness, np.abs(z, out=z).max(axis=0), out=outlyingness)
    return Matrix(A[np.sort(np.argpartition(outlyingness, h - 1)[:h])])


def spatial_median(X: Operator, weights: Array | None = None, tol: float = 1e-6) -> Array:
    """Return ``argmin_c sum_i w_i ||x_i - c||`` as a thin factor, by Weiszfeld's iteration.

    A step takes one pass. Rows nearer to c than rounding allows keep a finite weight.
    """
    norms = X.row_norms()
    xp = namespace(norms)
    size2, typical = norms * norms, typical_size(to_numpy(norms))
    floor = float(xp.finfo(norms.dtype).eps) * typical
    c = thin_factor(X, np.zeros((X.shape[1], 1)))
    for _ in range(100):
        c2 = float(gram(c)[0, 0])

        def row_map(Y: Array, rows: slice, c2: float = c2) -> tuple[Array, Array]:
            distance = xp.sqrt(at_least(size2[rows] - 2 * Y[:, 0] + c2, floor**2))
            w = 1 / distance if weights is None else weights[rows] / distance
            return w[:, None], xp.sum(w)

        total, mass = X.sweep(c, row_map)
        new = total / float(mass)
        moved, c = norm(new - c), new
        if moved <= tol * typical:
            break
    return c


def thin_factor(X: Operator, A: np.ndarray) -> Array:
    """Return the vectors with coordinates A as a thin factor that X can be multiplied with."""
    return X.rmatmul(X.asarray(A)) if X.implicit else X.asarray(A)


def coordinates(W: Array) -> np.ndarray:
    """Return the coordinates of a thin factor in float64."""
    return to_numpy(getattr(W, "coefficients", W)).astype(float)


def centered_at(X: Operator, center: np.ndarray, spread: float = 0.0) -> Operator:
    """Return ``X - 1 c^T``: implicit where that keeps the digits of rows of size ``spread``."""
    size2 = float(center @ center)
    if size2 == 0 and not X.implicit:
        return X
    limit = 4.0 if is_single(X) else 1e3
    if not (X.implicit or X.sparse) and size2 > limit * spread**2:
        return Shifted(X, center[:, None])
    return Centered(X, thin_factor(X, center[:, None]))


def fixed_center(center: Any, X: Operator, weights: np.ndarray | None) -> np.ndarray | None:
    """Return the centre in float64, or None where it is fitted with the subspace.

    It is a vector of d numbers; for an implicit X the coefficients a of ``c = Gamma^T a``.
    """
    d = X.shape[1]
    if center is None:
        return np.zeros(d)
    if not isinstance(center, str):
        vector = np.asarray(center, dtype=float)
        if vector.shape != (d,) or not np.isfinite(vector).all():
            raise ValueError(
                f"center has shape {vector.shape}; give {d} finite numbers, one for each feature, or "
                f"one of 'joint', {', '.join(map(repr, CENTERS))}, None"
            )
        return vector
    if center == "joint":
        return None
    if X.implicit:
        mass = np.ones(d) if weights is None else weights
        if center == "mean":
            return mass / mass.sum()
        return coordinates(spatial_median(X, X.asarray(mass)))[:, 0]
    counts = None if weights is None else X.asarray(weights)
    if center == "mean":
        total = to_numpy(X.column_sums(counts)[0]).astype(float)
        return total / (X.shape[0] if weights is None else weights.sum())
    if X.is_distributed:
        raise ValueError(
            f"center={center!r} needs whole columns in one place, and those of dask data are spread; "
            "use 'joint', 'mean', None, or a vector"
        )
    median = column_medians(X, weights)
    if center == "median":
        return median
    return median + coordinates(spatial_median(centered_at(X, median), counts))[:, 0]


def column_medians(X: Operator, weights: np.ndarray | None) -> np.ndarray:
    """Return the median of each column, a few columns at a time."""
    width = max(1, COLUMN_CHUNK // max(X.shape[0], 1))
    parts: list[Any] = []
    for first in range(0, X.shape[1], width):
        blocks = (block[:, first : first + width] for _, block in X.read_blocks())
        columns = np.concatenate([to_numpy(dense(block)).astype(float) for block in blocks])
        if weights is None:
            parts.append(np.median(columns, axis=0))
        else:
            parts.append([np.median(repeated(column, weights)) for column in columns.T])
    return np.concatenate(parts)
