"""Centres that are computed before the fit and stay."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import to_numpy
from ..operators import Operator
from ..operators.block_ops import dense
from .distances import centered_at, coordinates
from .scale import repeated, spatial_median

#: The centres by name.
CENTERS = ("geometric_median", "median", "mean")

#: Medians of columns are taken over this many numbers at a time.
CHUNK = 2**24


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
    width = max(1, CHUNK // max(X.shape[0], 1))
    parts: list[Any] = []
    for first in range(0, X.shape[1], width):
        blocks = (block[:, first : first + width] for _, block in X.read_blocks())
        columns = np.concatenate([to_numpy(dense(block)).astype(float) for block in blocks])
        if weights is None:
            parts.append(np.median(columns, axis=0))
        else:
            parts.append([np.median(repeated(column, weights)) for column in columns.T])
    return np.concatenate(parts)
