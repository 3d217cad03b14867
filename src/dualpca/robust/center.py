"""Centres that are computed before the fit and stay."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import Array, gram, namespace, norm, to_numpy
from ..operators import Operator
from ..operators.block_ops import dense
from ..operators.row_blocks import RowBlocked
from .distances import centered_at, thin_factor
from .scale import repeated, typical_size

#: The centres by name.
CENTERS = ("geometric_median", "median", "mean")

#: Medians of columns are taken over this many numbers at a time.
CHUNK = 2**24


def fixed_center(center: Any, X: Operator, weights: np.ndarray | None) -> np.ndarray | None:
    """Return the centre in float64, or None where it is fitted with the subspace.

    It is a vector of d numbers; for an implicit X the coefficients a of ``c = Gamma^T a``.
    """
    d = X.shape[1]
    if isinstance(center, str) and center == "joint":
        return None
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
    mass = None if weights is None else X.asarray(weights)
    if not isinstance(X, RowBlocked):
        count = np.ones(d) if weights is None else weights
        if center == "mean":
            return count / count.sum()
        return spatial_median(X, X.asarray(count)).coefficients[:, 0].astype(float)
    if center == "mean":
        total = to_numpy(X.column_sums(mass)[0]).astype(float)
        return total / (X.shape[0] if weights is None else weights.sum())
    if X.is_distributed:
        raise ValueError(
            f"center={center!r} needs whole columns in one place, and those of dask data are spread; "
            "use 'joint', 'mean', None, or a vector"
        )
    median = column_medians(X, weights)
    if center == "median":
        return median
    return median + to_numpy(spatial_median(centered_at(X, median), mass))[:, 0].astype(float)


def column_medians(X: RowBlocked, weights: np.ndarray | None) -> np.ndarray:
    """Return the median of each column, a few columns at a time."""
    N, d = X.shape
    width = max(1, CHUNK // max(N, 1))
    parts = []
    for first in range(0, d, width):
        columns = np.concatenate(
            [
                to_numpy(dense(block[:, first : min(first + width, d)])).astype(float)
                for _, block in X.read_blocks()
            ]
        )
        if weights is None:
            parts.append(np.median(columns, axis=0))
        else:
            parts.append([np.median(repeated(column, weights)) for column in columns.T])
    return np.concatenate(parts)


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
            distance = xp.sqrt(xp.clip(size2[rows] - 2 * Y[:, 0] + c2, floor**2, None))
            w = 1 / distance if weights is None else weights[rows] / distance
            return w[:, None], xp.sum(w)

        total, mass = X.sweep(c, row_map)
        new = total / float(mass)
        moved, c = norm(new - c), new
        if moved <= tol * typical:
            break
    return c
