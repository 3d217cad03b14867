"""Rows that are filled and scaled, in memory or as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device
from sklearn.utils._set_output import _wrap_data_with_container

from ..linalg import to_numpy
from ..operators import Operator
from ..operators.block_ops import GRAM_FACTOR, as_float, as_float64, block_rows
from ..operators.row_blocks import RowBlocked
from ..operators.row_maps import RowMap
from .columns import describe, has_infinite, is_finite, refuse


@dataclass(frozen=True, eq=False)
class Forward:
    """``(x - center) / scale`` of the rows of a block, NaN filled; all in float64."""

    fill: np.ndarray | None
    center: np.ndarray | None
    scale: np.ndarray | None
    names: Any
    missing: str

    def check(self, X: Any) -> bool:
        """Whether there is anything to do for X; what it must not hold is refused."""
        gaps = not is_finite(X)
        if gaps and (self.missing == "refuse" or has_infinite(X)):
            refuse(describe(X), self.names, self.missing)
        return gaps or self.scale is not None

    def entries(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Stored entries of sparse rows and the columns they are in."""
        if self.fill is not None:
            values = np.where(np.isnan(values), self.fill[columns], values)
        return values if self.scale is None else values / self.scale[columns]

    def rows(self, A: Any) -> Any:
        if self.fill is not None:
            xp = array_namespace(A)
            A = xp.where(xp.isnan(A), _like(self.fill, A), A)
        A = A if self.center is None else A - _like(self.center, A)
        return A if self.scale is None else A / _like(self.scale, A)


@dataclass(frozen=True, eq=False)
class Backward:
    """``x * scale + center`` of the rows of a block; in float64."""

    center: np.ndarray | None
    scale: np.ndarray | None

    def check(self, X: Any) -> bool:
        """Whether there is anything to do."""
        return self.scale is not None

    def entries(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Stored entries of sparse rows and the columns they are in."""
        return values if self.scale is None else values * self.scale[columns]

    def rows(self, A: Any) -> Any:
        A = A if self.scale is None else A * _like(self.scale, A)
        return A if self.center is None else A + _like(self.center, A)


class Preprocessed(RowMap):
    """Rows that are filled and scaled, or brought back, as they are read."""

    def __init__(self, X: RowBlocked, f: Forward | Backward) -> None:
        super().__init__(X, X.shape, lambda rows, block: [(rows, apply(f, block))])
        self._f = f
        #: the names of the columns, where the data has any
        self.names = getattr(X, "names", None)

    def take(self, rows: np.ndarray) -> Any:
        return apply(self._f, self.X.take(rows))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows in memory, for whoever asks numpy for them."""
        if self.sparse:
            raise TypeError(
                "these rows are sparse, and numpy has no array for them; use take(rows)"
            )
        return np.asarray(to_numpy(self.todense()), dtype=dtype)


class OutputMixin:
    """``transform`` by ``_transform``: tables where ``set_output`` asks for them, but of no operator.

    scikit-learn wraps what a transformer defines itself, and would read operators into tables; what
    it inherits it leaves alone.
    """

    def transform(self, X: Any) -> Any:
        """The rows, filled and scaled.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        X : array or sparse matrix of the same shape and kind, or what ``set_output`` asks for
            An operator for data that is not in memory, whatever ``set_output`` says; NaN and
            infinity there are found as blocks are read.
        """
        out = self._transform(X)  # type: ignore[attr-defined]
        if isinstance(out, Operator):
            return out
        return _wrap_data_with_container("transform", out, X, self)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X).transform(X)``.

        Parameters
        ----------
        X : array, sparse matrix, data frame, file or dask array of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        X : as of ``transform``
        """
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]


def apply(f: Forward | Backward, X: Any) -> Any:
    """f of X, in X's precision; an operator of an operator; X itself where there is nothing to do."""
    if (X.sparse if isinstance(X, RowBlocked) else sp.issparse(X)) and f.center is not None:
        raise ValueError(
            "X is sparse, and the Preprocessor was fitted on dense data, which it centres; fit it on "
            "sparse data, which it only scales"
        )
    if isinstance(X, RowBlocked):
        return Preprocessed(X, f)
    if isinstance(X, Operator):
        raise TypeError(f"X is a {type(X).__name__}, which has no rows to read; give its rows")
    X = as_float(X)
    if not f.check(X):
        return X
    if sp.issparse(X):
        return _changed(X, f)
    xp = array_namespace(X)
    out = xp.empty_like(X)
    step = block_rows(X.shape[1], 8, GRAM_FACTOR)  # little is in float64 at a time
    for i in range(0, X.shape[0], step):
        rows = slice(i, min(i + step, X.shape[0]))
        out[rows, :] = xp.astype(f.rows(as_float64(X[rows, :])), X.dtype, copy=False)
    return out


def _like(values: Any, block: Any) -> Any:
    """Numbers of the columns in float64, where the block is."""
    xp = array_namespace(block)
    return xp.asarray(values, dtype=xp.float64, device=device(block))


def _changed(S: Any, f: Forward | Backward) -> Any:
    out = S.copy()
    out.sum_duplicates()  # a number stored in parts is changed as a whole
    columns = out.indices
    if out.format == "csc":
        columns = np.repeat(np.arange(out.shape[1]), np.diff(out.indptr))
    out.data = f.entries(out.data.astype(np.float64), columns).astype(S.dtype, copy=False)
    return out
