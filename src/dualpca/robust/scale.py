"""Robust location and scale of one variable, and the cut-offs of distances that follow from them."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtr, chdtri, ndtri

#: Rows within this quantile of the first estimate enter the reweighted one, as in ROBPCA.
REWEIGHT = 0.975

#: Fewer than this share of the rows far below the bulk are a tail; more are the good rows themselves.
LOWER = 0.1

#: A group is too thin to span the subspace where it varies less than this share of all rows' spread.
THIN = 0.03

#: How many scales below the bulk "far" is.
FAR = 3.5


def chi2_quantile(q: float, k: float) -> float:
    """The q-quantile of chi-squared with k degrees of freedom."""
    return float(chdtri(k, 1 - q))


def location_scale(Z: np.ndarray, h: int) -> tuple[np.ndarray, np.ndarray]:
    """Reweighted univariate minimum covariance determinant of each row of Z (m x n).

    The mean of the h neighbours of least variance; the scale from the h-th distance to it, consistent
    for normal data; then mean and standard deviation of what lies within the REWEIGHT quantile
    (Hubert, Rousseeuw and Vanden Branden 2005, ROBPCA).
    """
    n = Z.shape[1]
    h = min(max(h, 1), n)
    Z = np.sort(Z, axis=1)
    middle = Z[:, n // 2, None].copy()
    Z -= middle
    # Sums of squares lose the digits of the bulk to a single huge value: values far outside the
    # shortest half are brought nearer, where they still are far outside.
    reach = 1e3 * (Z[:, h - 1 :] - Z[:, : n - h + 1]).min(axis=1, keepdims=True)
    if (Z[:, :1] < -reach).any() or (Z[:, -1:] > reach).any():
        Z = np.clip(Z, -reach, reach)
    sums, squares = np.zeros((2, Z.shape[0], n + 1))
    np.cumsum(Z, axis=1, out=sums[:, 1:])
    np.cumsum(Z * Z, axis=1, out=squares[:, 1:])
    mean = (sums[:, h:] - sums[:, : n - h + 1]) / h
    spread = (squares[:, h:] - squares[:, : n - h + 1]) / h - mean * mean
    location = np.take_along_axis(mean, np.argmin(spread, axis=1)[:, None], 1)
    # The h-th distance from the location, over the windows of h values that lie around it.
    edge = np.maximum(location - Z[:, : n - h + 1], Z[:, h - 1 :] - location).min(
        axis=1, keepdims=True
    )
    cut = chi2_quantile(REWEIGHT, 1)
    reach = edge * math.sqrt(cut / chi2_quantile(min(h / n, 1 - 0.5 / n), 1))
    first = (location - reach > Z).sum(axis=1, keepdims=True)
    last = (location + reach >= Z).sum(axis=1, keepdims=True)

    def inside(total: np.ndarray) -> np.ndarray:
        ends = (np.take_along_axis(total, end, 1) for end in (last, first))
        return np.subtract(*ends) / np.maximum(last - first, 1)

    location = inside(sums)
    variance = np.clip(inside(squares) - location**2, 0.0, None)
    variance = variance * REWEIGHT / chdtr(3, cut)  # a truncated normal varies less
    return (middle + location)[:, 0], np.sqrt(variance)[:, 0]


def bulk(
    distances: np.ndarray,
    scores: np.ndarray,
    weights: np.ndarray | None = None,
) -> tuple[float, float]:
    """Location and scale of ``distance^(2/3)``, near normal (Wilson and Hilferty), of the good rows.

    Outliers have large distances. Where the densest half is itself far above a sizeable group of rows,
    that half are outliers, and the estimate is that of the group, if its scores span the subspace: a
    cluster or a line that a subspace passes through does not. A subspace of s dimensions passes through
    any s + 1 rows, so a group must have twice as many.
    """
    s = scores.shape[1]
    rows = repeated_rows(distances, weights)
    counted = scores if weights is None else scores[weights > 0]
    t = np.cbrt(distances[rows]) ** 2
    enough = max(LOWER * len(t), 2 * (s + 1), 5)
    while True:
        h = min(len(t), (len(t) + s + 1) // 2)
        location, scale = (float(a[0]) for a in location_scale(t[None, :], h))
        lower = t < location - FAR * scale
        if lower.sum() < enough or not _spans(scores[rows[lower]], counted):
            return location, scale
        t, rows = t[lower], rows[lower]


def _spans(some: np.ndarray, scores: np.ndarray) -> bool:
    """Whether some rows vary in every direction of the scores, if less than all do."""
    low, high = np.percentile(scores, [25, 75], axis=0)
    spread = high - low
    columns = spread > 0
    if not columns.any():
        return False
    Z = (some[:, columns] - some[:, columns].mean(axis=0)) / spread[columns]
    return float(np.linalg.eigvalsh(Z.T @ Z / len(Z))[0]) > THIN**2


def cutoff(location: float, scale: float, q: float) -> float:
    """The q-quantile of the distances of good rows, from their :func:`bulk`."""
    return max(location + float(ndtri(q)) * scale, 0.0) ** 1.5


def repeated(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Each value as often as its weight says: exactly for whole weights, by quantiles for others."""
    return values[repeated_rows(values, weights)]


def repeated_rows(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Which value stands at each place of :func:`repeated`."""
    if weights is None:
        return np.arange(len(values))
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    count = min(max(round(float(total[-1])), 1), 10**6)
    places = (np.arange(count) + 0.5) * (total[-1] / count)
    return order[np.minimum(np.searchsorted(total, places), len(values) - 1)]
