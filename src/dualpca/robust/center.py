"""Centres that are computed before the fit and stay."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators._base import shifted
from ..linalg import to_numpy
from ..operators.block_ops import dense
from ..operators.row_blocks import RowBlocked
from .scale import repeated
from .starts import spatial_median

#: The centres by name.
CENTERS = ("geometric_median", "median", "mean")

#: Medians of columns are taken over so many numbers at a time.
CHUNK = 2**24


def fixed_center(center: Any, X: RowBlocked, weights: np.ndarray | None) -> np.ndarray | None:
    """The centre as a float64 vector; None where it is to be fitted with the subspace."""
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
    if center == "mean":
        total = to_numpy(X.column_sums(mass)[0]).astype(float)
        return total / (X.shape[0] if weights is None else weights.sum())
    if X.is_distributed:
        raise ValueError(
            f"center={center!r} needs whole columns in one place, which dask data has not; use "
            "'joint', 'mean', None, or a vector"
        )
    median = column_medians(X, weights)
    if center == "median":
        return median
    return median + to_numpy(spatial_median(shifted(X, median), mass))[:, 0].astype(float)


def column_medians(X: RowBlocked, weights: np.ndarray | None) -> np.ndarray:
    """The median of each column, some columns at a time."""
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
