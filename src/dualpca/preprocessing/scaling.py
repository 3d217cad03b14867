"""Rows that are filled and scaled, in memory or as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device

from ..linalg import to_numpy
from ..operators import Operator
from ..operators.block_ops import GRAM_FACTOR, as_float, as_float64, block_rows
from ..operators.row_blocks import RowBlocked, RowMap
from .columns import check_cells, is_finite, summarize_block


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - center) / scale`` of rows whose NaN are filled; ``x * scale + center`` if ``inverse``."""

    fill: np.ndarray | None
    center: np.ndarray | None
    scale: np.ndarray | None
    names: Any = None
    missing: str = "impute"
    inverse: bool = False

    def is_needed(self, X: Any) -> bool:
        """Return whether X would change; raise an error for cells that it must not hold."""
        if self.inverse or is_finite(X):
            return self.scale is not None
        entries = X.data if sp.issparse(X) else X
        xp = array_namespace(entries)
        if self.missing == "refuse" or bool(xp.any(xp.isinf(entries))):
            check_cells(summarize_block(X), self.names, self.missing)
        return True

    def __call__(self, values: Any, spread: Callable[[np.ndarray], Any]) -> Any:
        """Return the values scaled; ``spread`` makes of a number a column one for each value."""
        if self.inverse:
            values = values if self.scale is None else values * spread(self.scale)
            return values if self.center is None else values + spread(self.center)
        if self.fill is not None:
            xp = array_namespace(values)
            values = xp.where(xp.isnan(values), spread(self.fill), values)
        values = values if self.center is None else values - spread(self.center)
        return values if self.scale is None else values / spread(self.scale)


class Preprocessed(RowMap):
    """Rows that are filled and scaled, or brought back, as they are read."""

    def __init__(self, X: Operator, f: Scaling) -> None:
        super().__init__(X, X.shape, lambda rows, block: [(rows, apply(f, block))])
        self._f = f
        #: the names of the columns, if the data has any
        self.names = getattr(X, "names", None)

    def take(self, rows: np.ndarray) -> Any:
        return apply(self._f, self.X.take(rows))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all rows in memory, for those who ask numpy for them."""
        if self.sparse:
            raise TypeError(
                "these rows are sparse, and numpy has no array for them; use take(rows)"
            )
        return np.asarray(to_numpy(self.todense()), dtype=dtype)


def apply(f: Scaling, X: Any) -> Any:
    """Return f of X, computed in float64, in X's precision; X itself if it would not change.

    An operator becomes an operator that applies f to the blocks as they are read.
    """
    rows = isinstance(X, RowBlocked)
    if isinstance(X, Operator) and not rows:
        raise TypeError(f"X is a {type(X).__name__}, which has no rows to read; give its rows")
    if (X.sparse if rows else sp.issparse(X)) and f.center is not None:
        raise ValueError(
            "X is sparse, and the Preprocessor was fitted on dense data, which it centres; fit it on "
            "sparse data, which it only scales"
        )
    if rows:
        return Preprocessed(X, f)
    X = as_float(X)
    if not f.is_needed(X):
        return X
    return _apply_sparse(f, X) if sp.issparse(X) else _apply_dense(f, X)


def _apply_dense(f: Scaling, X: Any) -> Any:
    xp = array_namespace(X)
    out = xp.empty_like(X)

    def spread(values: np.ndarray) -> Any:
        return xp.asarray(values, dtype=xp.float64, device=device(X))

    step = block_rows(X.shape[1], 8, GRAM_FACTOR)  # one block is in float64 at a time
    for i in range(0, X.shape[0], step):
        rows = slice(i, min(i + step, X.shape[0]))
        block = f(as_float64(X[rows, :]), spread)
        out[rows, :] = xp.astype(block, X.dtype, copy=False)
    return out


def _apply_sparse(f: Scaling, S: Any) -> Any:
    out = S.copy()
    out.sum_duplicates()  # a number stored in parts is changed as a whole
    columns = out.indices
    if out.format == "csc":
        columns = np.repeat(np.arange(out.shape[1]), np.diff(out.indptr))
    values = f(out.data.astype(np.float64), lambda values: values[columns])
    out.data = values.astype(S.dtype, copy=False)
    return out
